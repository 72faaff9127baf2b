"""Settings: file, environment, flags."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes.errors import BadConfig
from surebayes.filter.settings import SETTINGS, as_toml, change, compiled, find, read, resolve


def test_environment_goes_before_file_before_default(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("top = 3\nmax_fpr = 0.01\n")
    resolved = resolve(str(tmp_path), environ={"SUREBAYES_TOP": "7"})
    assert resolved["top"] == (7, "SUREBAYES_TOP")
    assert resolved["max_fpr"] == (0.01, str(file))
    assert resolved["confidence"] == (0.95, "default")
    assert resolved["model"] == (str(tmp_path), "flag")


def test_file_is_the_named_one_else_the_variables_else_the_filters(tmp_path):
    in_folder, other = tmp_path / "config.toml", tmp_path / "other.toml"
    in_folder.write_text("")
    other.write_text("")
    assert find(str(tmp_path), environ={}) == in_folder
    assert find(None, environ={"SUREBAYES_MODEL": str(tmp_path)}) == in_folder
    assert find(str(tmp_path), environ={"SUREBAYES_CONFIG": str(other)}) == other
    assert find(str(tmp_path), str(in_folder), environ={"SUREBAYES_CONFIG": str(other)}) == in_folder
    with pytest.raises(BadConfig, match="Settings file not found"):
        find(None, str(tmp_path / "nothing.toml"), environ={})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_frp = 1", "unknown setting 'max_frp'; did you mean 'max_fpr'"),
        ("max_fpr = 1.5", "max_fpr must be a number between 0 and 1, exclusive. Got 1.5"),
        ("max_fpr = true", "max_fpr must be"),
        ("width = 12.5", "width must be an integer from 1024"),
        ('x_spam = "perhaps"', "x_spam must be true or false"),
        ('reader = "news"', "reader must be one of mail, text. Got 'news'"),
        ("top = ", "is not valid TOML"),
        ("[filter]\ntop = 1", "unknown setting 'filter'"),
    ],
)
def test_wrong_file_is_explained(tmp_path, line, message):
    file = tmp_path / "config.toml"
    file.write_text(line + "\n")
    with pytest.raises(BadConfig, match=message) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_wrong_variable_is_named():
    with pytest.raises(BadConfig, match=r"variable SUREBAYES_JOBS: jobs must be an integer of at least 1. Got '0'"):
        resolve(environ={"SUREBAYES_JOBS": "0"})


def test_written_file_has_every_setting_and_is_read_back(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(as_toml())
    assert read(file) == {}
    assert all(f"# {name} = " in file.read_text() for name in SETTINGS)
    values = {name: setting.default for name, setting in SETTINGS.items() if setting.default is not None}
    file.write_text(as_toml(values))
    assert read(file) == values


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_being_written(text):
    assert tomllib.loads(as_toml({"model": text}))["model"] == text


def test_change_keeps_the_rest(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(as_toml({"top": 3}) + "\n# a note of mine\n")
    assert change(file, "max_fpr", "0.02") == 0.02
    assert change(file, "top", "4") == 4
    assert read(file) == {"top": 4, "max_fpr": 0.02}
    assert "# a note of mine" in file.read_text()
    assert file.read_text().count("max_fpr =") == 1
    change(file, "top", None)
    assert read(file) == {"max_fpr": 0.02}
    with pytest.raises(BadConfig, match="top must be an integer"):
        change(file, "top", "many")
    with pytest.raises(BadConfig, match="unknown setting"):
        change(file, "tops", "1")
    assert read(file) == {"max_fpr": 0.02}
    assert list(tmp_path.iterdir()) == [file]


def test_what_the_filter_needs_is_compiled(tmp_path):
    assert compiled(tmp_path) == {"x_spam": False, "budget": False}
    (tmp_path / "config.toml").write_text("x_spam = true\ntop = 3\n")
    assert compiled(tmp_path) == {"x_spam": True, "budget": False}
    (tmp_path / "config.toml").write_text("x_spam = \n")
    assert compiled(tmp_path) == {"x_spam": False, "budget": False}


def test_change_makes_the_file(tmp_path):
    file = tmp_path / "config.toml"
    change(file, "x_spam", "yes")
    assert read(file) == {"x_spam": True}
