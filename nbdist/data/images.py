"""Small image sets, all as float32 images of one channel and 28 by 28, so that one net fits all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import TensorDataset

from ..errors import UsageError
from ..settings import Settings
from .idx import read_idx

DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")

FASHION_CLASSES = (
    "T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
DIGIT_CLASSES = tuple("0123456789")


class ImageSet(TensorDataset):
    """Images (N, 1, 28, 28) float32 and labels (N,) int64, with the names of the classes.

    Values are scaled to [0, 1], then normalised: the mean of all training pixels is subtracted and
    their standard deviation divided by, the same two figures for training and test images.
    """

    def __init__(
        self, images: torch.Tensor, labels: torch.Tensor, *, class_names: tuple[str, ...], name: str
    ) -> None:
        super().__init__(images, labels)
        self.class_names = class_names
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name}: {len(self)} images of {len(self.class_names)} classes"


def fashion_mnist(root: str | os.PathLike[str] | None = None) -> tuple[ImageSet, ImageSet]:
    """Return the training (60 000) and test (10 000) images of Fashion-MNIST.

    Looks in `root`, else in the setting `data_root`, else where Debian's package puts it.

    Raises:
        UsageError: the files are not there (the sentence says what to install) or not whole.
    """
    folder = Path(root or Settings.from_environment().data_root or DEBIAN_FASHION)

    def read(part: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        paths = folder / f"{part}-images-idx3-ubyte.gz", folder / f"{part}-labels-idx1-ubyte.gz"
        for path in paths:
            if not path.is_file():
                raise UsageError(
                    f"Fashion-MNIST is not in {folder} ({path.name} is missing); run `apt-get install "
                    "dataset-fashion-mnist`, or set NBDIST_DATA_ROOT to the folder of its four .gz files."
                )
        images, labels = read_idx(paths[0], 3), read_idx(paths[1], 1)
        if len(images) != len(labels):
            raise UsageError(f"{folder} has {len(images)} {part} images but {len(labels)} labels.")
        return images, labels

    return _pair("Fashion-MNIST", FASHION_CLASSES, read("train"), read("t10k"), white=255)


def digits() -> tuple[ImageSet, ImageSet]:
    """Return scikit-learn's 1797 handwritten digits; every fifth is a test image.

    They are 8 by 8: each pixel is drawn as 3 by 3, with a margin of 2 around.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UsageError("the digits come with scikit-learn; run `pip install scikit-learn`.") from None
    images, labels = load_digits(return_X_y=True)
    small = images.reshape(-1, 8, 8).astype(np.uint8)
    large = np.pad(small.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))
    test = np.arange(len(large)) % 5 == 4
    return _pair(
        "Digits", DIGIT_CLASSES, (large[~test], labels[~test]), (large[test], labels[test]), white=16
    )


def _pair(
    name: str,
    class_names: tuple[str, ...],
    train: tuple[npt.NDArray[np.uint8], npt.NDArray[np.integer]],
    test: tuple[npt.NDArray[np.uint8], npt.NDArray[np.integer]],
    *,
    white: int,
) -> tuple[ImageSet, ImageSet]:
    # Exact figures from integer pixels, so that they are the same on every machine.
    counts = np.bincount(train[0].reshape(-1), minlength=white + 1)
    levels = np.arange(len(counts)) / white
    mean = float((counts * levels).sum() / counts.sum())
    deviation = float(np.sqrt((counts * (levels - mean) ** 2).sum() / counts.sum()))

    def build(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.integer]) -> ImageSet:
        pixels = torch.from_numpy(images.copy()).unsqueeze(1).float()
        pixels.div_(white).sub_(mean).div_(deviation)
        return ImageSet(pixels, torch.from_numpy(labels.astype(np.int64)), class_names=class_names, name=name)

    return build(*train), build(*test)
