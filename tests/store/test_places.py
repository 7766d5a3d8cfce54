from pathlib import Path

import pytest

from fleet.errors import StoreWarning, UsageError
from fleet.store.places import Bucket, Folder, parse_place


@pytest.mark.parametrize("text", ["results", "./s3", "/var/lib/fleet", "a:b", "C"])
def test_a_path_is_a_folder_and_its_own_desk(text: str) -> None:
    place = parse_place(text)
    assert isinstance(place, Folder)
    assert str(place) == str(Path(text))
    assert place.state_dir == Path(text) / ".fleet"


def test_an_address_is_a_bucket_with_a_desk_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    texts = [
        "",
        "/a",
        "/a/?region=eu-central-1",
        "/a?endpoint_override=http://store.example:9000",
    ]
    places = [parse_place(f"s3://lab{text}") for text in texts]
    assert all(isinstance(place, Bucket) for place in places)
    assert [str(place) for place in places] == [
        "s3://lab",
        "s3://lab/a",
        "s3://lab/a",
        "s3://lab/a",
    ]
    folders = [place.state_dir for place in places]
    assert folders[1] == folders[2]  # the same objects
    assert len(set(folders)) == 3
    assert all(folder.parent == tmp_path / "fleet" for folder in folders)
    for place in places:
        assert parse_place(place.address).state_dir == place.state_dir
    assert places[1].path("runs/r1.parquet") == "lab/a/runs/r1.parquet"


def test_a_folder_that_fleet_never_named_costs_no_run_its_place(tmp_path: Path) -> None:
    for run in ("r1", "\udcff", "..%2f"):
        folder = tmp_path / "samples/host_id=h1" / f"run_id={run}"
        folder.mkdir(parents=True)
        (folder / "samples.parquet").touch()
    with pytest.warns(StoreWarning, match="is no name of fleet's") as caught:
        assert list(Folder(tmp_path).stamps()) == [("h1", "r1")]
    assert len(caught) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gs://lab/a", "only folders and s3://"),
        ("https://lab.example/a", "only folders and s3://"),
        ("s3://", "not an address"),
        ("s3:/lab/a", "not an address"),
        ("s3://lab/../other", "not an address"),
        ("s3://lab/a#b", "not an address"),
        ("s3://lab/a?region", "not an address"),
        ("s3://lab/a?acess_key=hunter2", "unknown option acess_key"),
        ("s3://key:hunter2@lab/a", "no credentials in the address"),
        ("gs://key:hunter2@lab/a", "only folders and s3://"),
        (
            "s3://lab/a?endpoint_override=http://key:hunter2@store.example",
            "no credentials in the address",
        ),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_without_its_secrets(
    text: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_place(text)
    assert "hunter2" not in str(caught.value)


def test_what_is_in_a_folder_stays_as_it_is(tmp_path: Path) -> None:
    place = Folder(tmp_path / "root")
    draft = tmp_path / "draft"
    for content, taken in (("first", True), ("second", False)):
        draft.write_text(content)
        assert place.put(draft, "runs/r1.parquet") is taken
    assert (tmp_path / "root/runs/r1.parquet").read_text() == "first"


def test_a_file_system_without_hard_links_takes_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")  # as vfat answers

    monkeypatch.setattr("os.link", refuse_link)
    test_what_is_in_a_folder_stays_as_it_is(tmp_path)


def test_names_are_found_by_pattern(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    assert place.files("runs/*.parquet") == []
    samples = "samples/host_id=a/run_id=b/x.parquet"
    for name in ("runs/r2.parquet", "runs/r1.parquet", "runs/note.txt", samples):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert place.files("runs/*.parquet") == ["runs/r1.parquet", "runs/r2.parquet"]
    assert place.files("samples/host_id=*/run_id=b/*.parquet") == [samples]


def test_a_file_named_as_a_folder_of_ours_hides_no_run(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    (tmp_path / "samples/host_id=b/run_id=r1").mkdir(parents=True)
    (tmp_path / "samples/host_id=a").touch()
    (tmp_path / "samples/host_id=b/run_id=r1/samples.parquet").touch()
    (tmp_path / "samples/host_id=b/run_id=r2").mkdir()
    assert list(place.stamps()) == [("b", "r1")]
    with pytest.raises(NotADirectoryError):
        Folder(tmp_path / "samples/host_id=a").stamps()


def test_the_home_is_written_with_a_tilde_and_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(parse_place("~/results")) == f"{tmp_path}/results"
    monkeypatch.chdir(tmp_path)
    assert parse_place("./~name").address == f"{tmp_path}/~name"
    with pytest.raises(
        UsageError,
        match=r"~nobody-of-that-name/r: there is no user of that name",
    ):
        parse_place("~nobody-of-that-name/r")
