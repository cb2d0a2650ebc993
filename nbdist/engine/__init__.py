"""What lives inside a rank: its start, the hooks around a cell, the metrics tap."""
