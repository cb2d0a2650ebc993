"""Image sets: strict reading, one shape, normalised values."""

import builtins
import gzip

import numpy as np
import pytest
import torch

from nbdist.data import digits, fashion_mnist, images
from nbdist.data.idx import read_idx
from nbdist.errors import UsageError


def write_idx(path, array, kind=8):
    head = bytes([0, 0, kind, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


def write_set(folder, train=6, test=4):
    for part, count in (("train", train), ("t10k", test)):
        pixels = np.random.default_rng(count).integers(0, 256, (count, 28, 28))
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", pixels)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(count) % 10)


def check(train, test):
    for part in (train, test):
        x, y = part.tensors
        assert x.shape == (len(part), 1, 28, 28)
        assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
        assert x.is_contiguous()
        assert len(part.class_names) == 10
        assert int(y.min()) >= 0
        assert int(y.max()) <= 9
    assert train.tensors[0].mean().item() == pytest.approx(0, abs=1e-4)
    assert train.tensors[0].std().item() == pytest.approx(1, abs=1e-3)


def test_a_folder_of_files(tmp_path, monkeypatch):
    write_set(tmp_path)
    train, test = fashion_mnist(tmp_path)
    check(train, test)
    assert (len(train), len(test)) == (6, 4)
    assert repr(train) == "Fashion-MNIST: 6 images of 10 classes"
    monkeypatch.setenv("NBDIST_DATA_ROOT", str(tmp_path))
    assert len(fashion_mnist()[0]) == 6


@pytest.mark.skipif(not images.DEBIAN_FASHION.is_dir(), reason="dataset-fashion-mnist is not installed")
def test_fashion_mnist_of_debian():
    train, test = fashion_mnist()
    assert (len(train), len(test)) == (60_000, 10_000)
    check(train, test)
    assert torch.bincount(train.tensors[1]).tolist() == [6000] * 10


def test_missing_files_say_what_to_install(tmp_path):
    with pytest.raises(UsageError, match="apt-get install dataset-fashion-mnist"):
        fashion_mnist(tmp_path)


def test_digits():
    train, test = digits()
    check(train, test)
    assert len(train) + len(test) == 1797
    assert len(set(test.tensors[1].tolist())) == 10


def test_digits_without_scikit_learn(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **options):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match="pip install scikit-learn"):
        digits()


def test_idx_is_read_strictly(tmp_path):
    good = tmp_path / "good.gz"
    write_idx(good, np.arange(12).reshape(3, 4))
    assert read_idx(good, 2).tolist() == np.arange(12).reshape(3, 4).tolist()
    raw = good.read_bytes()
    spoilt = {
        "gzip": b"not gzip at all",
        "whole gzip": raw[:-9],
        "idx": gzip.compress(b"\1\2\3\4"),
        "8 bytes where": gzip.compress(gzip.decompress(raw)[:-4]),
        "unsigned bytes": gzip.compress(b"\0\0\x0d\1\0\0\0\0"),
        "16 bytes where": gzip.compress(gzip.decompress(raw) + b"more"),
    }
    for told, content in spoilt.items():
        bad = tmp_path / "bad.gz"
        bad.write_bytes(content)
        with pytest.raises(UsageError, match=told):
            read_idx(bad, 2)
    with pytest.raises(UsageError, match="2 dimensions where 3"):
        read_idx(good, 3)


def test_idx_header_cut_short(tmp_path):
    bad = tmp_path / "bad.gz"
    bad.write_bytes(gzip.compress(b"\0\0\x08\2\0\0"))
    with pytest.raises(UsageError):
        read_idx(bad, 2)
