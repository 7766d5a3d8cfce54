"""A local Spark for tests."""

import zipfile
from pathlib import Path

import pytest

from tests import needs


def prepare_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make sure that Spark can start here; folder: for a library that it does not find
    itself.
    """
    pyspark = needs.python_module("pyspark", "pyspark")
    needs.program("java", "openjdk-17-jre-headless")
    if Path(
        "/lib/ld-musl-x86_64.so.1"
    ).exists():  # Snappy takes such a machine for Alpine: name its library
        (jar,) = Path(pyspark.__file__).parent.glob("jars/snappy-java-*.jar")
        library = (
            zipfile.Path(jar) / "org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"
        )
        (folder / library.name).write_bytes(library.read_bytes())
        monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Dorg.xerial.snappy.lib.path={folder}")
    if (
        pyspark.SparkContext._gateway is not None
    ):  # a Java process of a test before, in a folder that is gone
        pyspark.SparkContext._gateway.shutdown()
        pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = None
