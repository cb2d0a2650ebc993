"""A part of PyTorch's suite, in a time that everybody has; `make conformance` runs it all."""

from __future__ import annotations

import pytest

from .run import Outcome, SuiteFailed, left_out, run

# One or two of each kind.
FOUR = [
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_all_gather_coalesced_with_empty",
    "test_all_gather_object_default_pg",
    "test_all_reduce_coalesced_sum",
    "test_all_reduce_full_group_max",
    "test_all_to_all_complex",
    "test_all_to_all_single_unequal_split_full_group",
    "test_barrier_timeout_full_group",
    "test_batch_isend_irecv_gloo_tags",
    "test_ddp_logging_data_cpu",
    "test_gather_object",
    "test_grads_same_across_ranks_with_no_sync",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_reduce_sum_twice",
    "test_scatter_object_list",
    "test_send_recv_any_source_torch_profiler",
    "test_sparse_all_reduce_sum",
]
EIGHT = ["test_all_to_all_single_unequal_split_group", "test_barrier_timeout_group"]


@pytest.mark.parametrize(("world_size", "names"), [(4, FOUR), (8, EIGHT)], ids=["four", "eight"])
def test_subset_passes(world_size, names):
    assert not set(names) & set(left_out())
    outcomes = run(world_size, names, timeout=100)
    wrong = {name: each for name, each in outcomes.items() if each != Outcome("passed")}
    assert not wrong, "\n".join(f"{name}: {each.outcome}\n{each.why}" for name, each in wrong.items())


def test_a_test_that_is_not_reached_is_missing_and_says_why():
    here, none = "test_all_reduce_sum", "test_that_is_not_there"
    outcomes = run(4, [here, none], timeout=100)
    assert set(outcomes) == {here, none}
    assert {each.outcome for each in outcomes.values()} == {"missing"}
    assert "it ended with 1; see what it wrote" in outcomes[none].why
    assert "no such test method" in outcomes[none].why


def test_a_suite_that_does_not_begin_fails_with_what_it_wrote(monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(SuiteFailed, match="did not begin, it ended with 1"):
        run(4)
