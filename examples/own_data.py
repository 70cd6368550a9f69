"""Learn your own images and ask about them.

    python examples/own_data.py PHOTOS          a folder with a folder of images for each class
    python examples/own_data.py                 without one: small digits are written and used
"""
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout, not installed

from mammoth import load_model, load_runner, train  # noqa: E402


def write_digits(folder: Path, per_class: int = 40) -> Path:
    """Scikit-learn's digits as image files, a folder per class."""
    from PIL import Image

    from datasets.utils.digits import load_digits

    images, labels = load_digits(True)
    for digit in range(6):
        (folder / str(digit)).mkdir(parents=True)
        for number, image in enumerate(images[labels == digit][:per_class]):
            Image.fromarray(image.numpy()).save(folder / str(digit) / f"{number}.png")
    return folder


def main(work: Path, photos: Path) -> None:
    """Train NPCL on the folder, then ask it about some of the images."""
    checkpoints = work / "checkpoints"
    learner, benchmark = load_runner("npcl", "folder", {
        "data": photos, "buffer_size": 100, "seed": 0, "savecheck": "last", "n_global": 10,
        "base_path": work, "checkpoint_path": checkpoints, "non_verbose": 1})
    print(benchmark.describe())
    result = train(learner, benchmark)
    print("accuracy:", result["accuracy"])

    model = load_model(next(checkpoints.glob("*_last.pt")))
    first_class = next(path for path in sorted(photos.iterdir()) if path.is_dir())
    answer = model.ask(sorted(first_class.iterdir())[:5])
    print(answer)
    print(answer.sure(at_least=0.9))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        given = Path(sys.argv[1]) if len(sys.argv) > 1 else write_digits(Path(name, "digits"))
        main(Path(name), given)
