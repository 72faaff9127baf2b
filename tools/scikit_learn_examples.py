"""Run scikit-learn's text examples with only the imports changed: our classes in place of theirs.

    python tools/scikit_learn_examples.py [--sdist FILE] [--seconds N] [NAME ...]

The examples are taken from the source archive of the installed release, which pip downloads (or from FILE); nothing of
them is kept. Most of them read 20 newsgroups, here from the folder of corpora that SUREBAYES_DATA names.
"""

from __future__ import annotations

import argparse
import ast
import codecs
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import sklearn

EXAMPLES = (
    "text/plot_document_classification_20newsgroups.py",
    "text/plot_document_clustering.py",
    "text/plot_hashing_vs_dict_vectorizer.py",
    "model_selection/plot_grid_search_text_feature_extraction.py",
    "semi_supervised/plot_semi_supervised_newsgroups.py",
    "applications/plot_topics_extraction_with_nmf_lda.py",
    "bicluster/plot_bicluster_newsgroups.py",
    "compose/plot_column_transformer.py",
    "ensemble/plot_random_forest_embedding.py",
)
"""All that import a text vectorizer or a discrete Naive Bayes, but plot_out_of_core_classification (a download)."""

REPLACED = {
    "sklearn.feature_extraction.text": {"CountVectorizer", "HashingVectorizer", "TfidfVectorizer"},
    "sklearn.naive_bayes": {"BernoulliNB", "ComplementNB", "MultinomialNB"},
}
# pip needs the metadata of a source archive, whose backend would compile it: this one copies the static metadata
BACKEND = """
import os


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    with open("PKG-INFO", encoding="utf-8") as file:
        version = next(line.split()[1] for line in file if line.startswith("Version:"))
    name = f"scikit_learn-{version}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    with open(os.path.join(metadata_directory, name, "METADATA"), "w", encoding="utf-8") as file:
        file.write(f"Metadata-Version: 2.1\\nName: scikit-learn\\nVersion: {version}\\n")
    return name
"""


class OurClasses(ast.NodeTransformer):
    """Imports the classes that we have from surebayes, and leaves everything else as it is."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.ImportFrom]:
        """Split an import of scikit-learn's text or Naive Bayes classes."""
        ours = [alias for alias in node.names if alias.name in REPLACED.get(node.module or "", ())]
        theirs = [alias for alias in node.names if alias not in ours]
        parts = ((node.module, theirs), ("surebayes", ours))
        return [ast.ImportFrom(module, names, 0) for module, names in parts if names]


def downloaded(folder: Path) -> Path:
    """Let pip download the source archive of the installed release."""
    (folder / "mesonpy.py").write_text(BACKEND, encoding="utf-8")
    wanted = f"scikit-learn=={sklearn.__version__}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--no-binary", ":all:", "--dest", str(folder), wanted],
        check=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    return next(folder.glob("scikit_learn-*.tar.gz"))


def write_newsgroups(data_home: Path) -> bool:
    """Write 20 newsgroups where scikit-learn keeps it after a download; False where SUREBAYES_DATA has no copy."""
    from sklearn.utils import Bunch

    from surebayes import corpora

    try:
        corpus = corpora.load("news20_bydate", os.environ.get("SUREBAYES_DATA"))
    except corpora.CorpusMissing:
        return False
    names = sorted(set(corpus.labels))
    parts = {}
    for part in ("train", "test"):
        rows = [i for i, split in enumerate(corpus.split) if split == part]
        parts[part] = Bunch(
            data=[bytes(corpus.documents[i]).decode("latin-1") for i in rows],
            filenames=np.array([str(i) for i in rows]),
            target_names=names,
            target=np.array([names.index(corpus.labels[i]) for i in rows]),
            DESCR="",
        )
    data_home.mkdir(exist_ok=True)
    (data_home / "20news-bydate_py3.pkz").write_bytes(codecs.encode(pickle.dumps(parts), "zlib_codec"))
    return True


def run(names: list[str], sdist: Path | None, seconds: float) -> int:
    """Run examples; return the number of failures."""
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with tarfile.open(sdist or downloaded(folder)) as archive:
            root = archive.getnames()[0].split("/")[0]
            sources = {name: archive.extractfile(f"{root}/examples/{name}").read() for name in names}  # type: ignore[union-attr]
        if not write_newsgroups(folder / "data"):
            print("SUREBAYES_DATA has no 20 newsgroups: examples that read it are left out")
            sources = {name: source for name, source in sources.items() if b"fetch_20newsgroups" not in source}
        environment = {**os.environ, "SCIKIT_LEARN_DATA": str(folder / "data"), "MPLBACKEND": "agg"}
        for name, source in sources.items():
            script = folder / Path(name).name
            tree = ast.fix_missing_locations(OurClasses().visit(ast.parse(source)))
            script.write_text(ast.unparse(tree), encoding="utf-8")
            started = time.monotonic()
            try:
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", str(script)],
                    env=environment,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=seconds,
                    check=False,
                )
                outcome = "ran" if done.returncode == 0 else f"failed: {done.stderr.strip().splitlines()[-1]}"
                failed += done.returncode != 0
            except subprocess.TimeoutExpired:
                outcome = f"was stopped after {seconds:.0f} s"
                failed += 1
            print(f"{name} {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
    return failed


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples (default: all)")
    parser.add_argument("--sdist", type=Path, help="the source archive of scikit-learn, if it is at hand")
    parser.add_argument("--seconds", type=float, default=1800, help="how long one example may take")
    options = parser.parse_args()
    return min(run(options.names or list(EXAMPLES), options.sdist, options.seconds), 1)


if __name__ == "__main__":
    sys.exit(main())
