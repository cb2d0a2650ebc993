"""What torch gets for a store where groups need none."""

from __future__ import annotations

from typing import Any, NoReturn

from torch._C._distributed_c10d import Store

from ..errors import UsageError

# mypy: disable-error-code="assignment"


class NoStore(Store):
    """Refuse, where torch would wait for ever for the keys of other ranks.

    Groups of ours meet without a store in a notebook; one of another backend cannot.
    """

    def _refuse(self, *_: Any) -> NoReturn:
        raise UsageError(
            "the ranks of a notebook share no torch store, so they form groups of backend nbdist only; "
            "leave `backend` out, or give init_process_group a store of your own"
        )

    set = get = add = wait = check = compare_set = delete_key = num_keys = append = _refuse
    multi_get = multi_set = queue_push = queue_pop = queue_len = _refuse


NO_STORE = NoStore()  # kept for ever, because torch's C++ side does not keep the Python half
