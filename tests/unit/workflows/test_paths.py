from __future__ import annotations

import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci.workflows.affected import choose
from ci.workflows.files import Files
from ci.workflows.paths import PathFilter, PatternError, pattern, starts

DOCUMENTATION = (
    # https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax#patterns-to-match-file-paths
    (["*"], "README.md", True),
    (["*"], "server.rb", True),
    (["*"], "docs/README.md", False),
    (["*.jsx?"], "page.js", True),
    (["*.jsx?"], "page.jsx", True),
    (["*.jsx?"], "page.jsxx", False),
    (["**"], "all/the/files.md", True),
    (["*.js"], "app.js", True),
    (["*.js"], "js/index.js", False),
    (["**.js"], "index.js", True),
    (["**.js"], "js/index.js", True),
    (["**.js"], "src/js/app.js", True),
    (["docs/*"], "docs/README.md", True),
    (["docs/*"], "docs/file.txt", True),
    (["docs/*"], "docs/mona/octocat.txt", False),
    (["docs/**"], "docs/README.md", True),
    (["docs/**"], "docs/mona/octocat.txt", True),
    (["docs/**/*.md"], "docs/README.md", True),
    (["docs/**/*.md"], "docs/mona/hello-world.md", True),
    (["docs/**/*.md"], "docs/a/markdown/file.md", True),
    (["docs/**/*.md"], "docs.md", False),
    (["**/docs/**"], "docs/hello.md", True),
    (["**/docs/**"], "dir/docs/my-file.txt", True),
    (["**/docs/**"], "space/docs/plan/space.doc", True),
    (["**/docs/**"], "mydocs/hello.md", False),
    (["**/README.md"], "README.md", True),
    (["**/README.md"], "js/README.md", True),
    (["**/README.md"], "js/MYREADME.md", False),
    (["**/*src/**"], "a/src/app.js", True),
    (["**/*src/**"], "my-src/code/js/app.js", True),
    (["**/*-post.md"], "my-post.md", True),
    (["**/*-post.md"], "path/their-post.md", True),
    (["**/migrate-*.sql"], "migrate-10909.sql", True),
    (["**/migrate-*.sql"], "db/migrate-v1.0.sql", True),
    (["**/migrate-*.sql"], "db/sept/migrate-v1.sql", True),
    (["*.md", "!README.md"], "hello.md", True),
    (["*.md", "!README.md"], "README.md", False),
    (["*.md", "!README.md"], "docs/hello.md", False),
    (["*.md", "!README.md", "README*"], "hello.md", True),
    (["*.md", "!README.md", "README*"], "README.md", True),
    (["*.md", "!README.md", "README*"], "README.doc", True),
    # the same page's patterns of branches and tags obey the same rules
    (["feature/*"], "feature/my-branch", True),
    (["feature/*"], "feature/beta-a/my-branch", False),
    (["feature/**"], "feature/mona/the/octocat", True),
    (["*feature"], "feature", True),
    (["*feature"], "ver-10-feature", True),
    (["v2*"], "v2", True),
    (["v2*"], "v2.9", True),
    (["v[12].[0-9]+.[0-9]+"], "v1.10.1", True),
    (["v[12].[0-9]+.[0-9]+"], "v3.0.0", False),
    (["v[12].[0-9]+.[0-9]+"], "v1..1", False),
    (["v[12].[0-9]+.[0-9]+"], "v1.10.1-rc", False),
    # "Including and excluding paths" of the same page: the order of patterns decides
    (["sub-project/**", "!sub-project/docs/**"], "sub-project/index.js", True),
    (["sub-project/**", "!sub-project/docs/**"], "sub-project/src/index.js", True),
    (["sub-project/**", "!sub-project/docs/**"], "sub-project/docs/readme.md", False),
    (["!sub-project/docs/**", "sub-project/**"], "sub-project/docs/readme.md", True),
    (["!docs/**"], "src/app.js", False),
)
REPORTS = (
    # https://github.com/nektos/act/blob/master/pkg/workflowpattern/workflow_pattern_test.go, and the runner it follows
    ([r"\!file"], "!file", True),
    ([r"escape\\backslash"], "escape\\backslash", True),
    ([".yml"], "fyml", False),
    (["path/a", "path/b", "path/c"], "path/d", False),
    # https://github.com/datahub-project/datahub/pull/18366: match all, take away, take back
    (["**", "!.github/**", ".github/workflows/build.yml"], ".github/workflows/build.yml", True),
    (["**", "!.github/**", ".github/workflows/build.yml"], ".github/workflows/docs.yml", False),
    # https://github.com/kubeflow/pipelines-components/pull/159: `!` does exclude in `paths`
    (["components/**", "!**/OWNERS"], "components/a/OWNERS", False),
    (["components/**", "!**/OWNERS"], "components/a/main.py", True),
    # https://github.com/Scille/parsec-cloud/pull/10144
    (["testbed-server/**", "!testbed-server/README.md"], "testbed-server/README.md", False),
    # "path patterns must match the whole path, and start from the repository's root" (the same page)
    (["docs"], "docs/README.md", False),
    (["docs/"], "docs/README.md", False),
    (["./docs/**"], "docs/README.md", False),
    (["/docs/**"], "docs/README.md", False),
    # dot files are files, as `.github` is one in the reports above
    (["*"], ".gitignore", True),
    (["**"], ".github/workflows/ci.yml", True),
    (["**/*.yml"], ".github/workflows/ci.yml", True),
    (["*.yml"], ".pre-commit.yml", True),
    # case matters
    (["docs/**"], "Docs/a.md", False),
    (["**.MD"], "README.md", False),
    # verl's own: `examples/*trainer*` stops at a folder, `**/*.py` takes the root
    (["**/*.py", "!examples/*trainer*"], "examples/grpo_trainer/run.py", True),
    (["**/*.py"], "setup.py", True),
    (["**/*.py", "!verl/trainer/main_*.py", "verl/trainer/main_ppo.py"], "verl/trainer/main_ppo.py", True),
    (["**/*.py", "!verl/trainer/main_*.py", "verl/trainer/main_ppo.py"], "verl/trainer/main_eval.py", False),
    (["**/*.py", "!**/*.md"], "a.md", False),
)
EDGES = (
    (["a**/b"], "ab", True),
    (["a**/b"], "axx/yy/b", True),
    (["a**b"], "a/x/b", True),
    (["**/**/x"], "x", True),
    (["**/**/x"], "a/b/c/x", True),
    (["***"], "a/b", True),
    (["a?b"], "b", True),
    (["a?b"], "xb", False),
    (["a+b"], "aaab", True),
    (["a+b"], "b", False),
    (["+a"], "+a", True),
    (["?a"], "?a", True),
    (["a?+"], "", True),
    (["*?x"], "abcx", True),
    (["x.py"], "xxpy", False),
    (["[A-Z]x"], "Bx", True),
    (["[A-Z]x"], "bx", False),
    (["[^a]x"], "^x", True),
    (["[^a]x"], "bx", False),
    (["a$"], "a", False),
    (["(a|b)"], "a", False),
    (["a{1,2}"], "aa", False),
    (["**"], "line\nbreak", True),
    (["*"], "line\nbreak", True),
)
TABLE = (*DOCUMENTATION, *REPORTS, *EDGES)


@pytest.mark.parametrize(("patterns", "path", "expected"), TABLE)
def test_matches_what_github_matches(patterns: list[str], path: str, expected: bool) -> None:
    assert PathFilter.of(patterns).includes(path) is expected
    files = Files([path, "beside", "zz/after"])
    assert (path in files.named(files.included(PathFilter.of(patterns)))) is expected


@pytest.mark.parametrize("text", ["a[", "a[]", "[a", "[a-]", "[z-a]", "[a-9]", "[a b]", "a\\", "", "!"])
def test_refuses_what_github_refuses(text: str) -> None:
    with pytest.raises(PatternError):
        pattern(text)


def test_names_the_pattern_that_decided() -> None:
    decision = PathFilter.of(["verl/**", "!verl/docs/**", "README.md"]).decide("verl/docs/a.md")
    assert not decision.included
    assert decision.by is not None
    assert decision.by.text == "!verl/docs/**"
    assert PathFilter.of(["verl/**"]).decide("setup.py").by is None


def test_paths_ignore_starts_unless_every_file_is_ignored() -> None:
    assert starts(["docs/a.md", "verl/a.py"], ignore=["docs/**"])
    assert not starts(["docs/a.md"], ignore=["docs/**"])
    assert starts(["docs/a.md"])
    assert starts(["docs/keep.md"], ignore=["docs/**", "!docs/keep.md"])
    assert not starts(["docs/a.md"], paths=["verl/**"])


# A second implementation: it walks pattern and path character by character, and knows no regular expressions.


def _slow(text: str, path: str) -> bool:
    if text.startswith("**/"):
        folders = [index + 1 for index, character in enumerate(path) if character == "/" and index > 0]
        return any(_slow(text[3:], path[cut:]) for cut in (0, *folders))
    if text.startswith("**"):
        return any(_slow_after_star(text[2:], path[cut:]) for cut in range(len(path) + 1))
    if text.startswith("*"):
        end = path.find("/") if "/" in path else len(path)
        return any(_slow_after_star(text[1:], path[cut:]) for cut in range(end + 1))
    if not text:
        return not path
    allowed, rest = _slow_character(text)
    signs = rest[: len(rest) - len(rest.lstrip("?+"))]
    rest = rest[len(signs) :]
    least = 0 if "?" in signs else 1
    most = len(path) if "+" in signs else 1
    count = 0
    while True:
        if count >= least and _slow(rest, path[count:]):
            return True
        if count == most or count >= len(path) or path[count] not in allowed:
            return False
        count += 1


def _slow_after_star(text: str, path: str) -> bool:
    return _slow(text.lstrip("?+"), path)


def _slow_character(text: str) -> tuple[str, str]:
    if text[0] == "\\":
        return text[1], text[2:]
    if text[0] == "[":
        members, _, rest = text[1:].partition("]")
        allowed = ""
        while members:
            if members[1:2] == "-":
                allowed += "".join(map(chr, range(ord(members[0]), ord(members[2]) + 1)))
                members = members[3:]
            else:
                allowed += members[0]
                members = members[1:]
        return allowed, rest
    return text[0], text[1:]


PIECES = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        ".",
        "/",
        "*",
        "**",
        "**/",
        "/**",
        "?",
        "+",
        "[ab]",
        "[a-c]",
        "[0-9]",
        "\\*",
        "\\?",
        "\\!",
        "-",
        ".py",
    ]
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=6).map("".join).filter(lambda text: text[0] not in "?+!")
PATHS = st.lists(
    st.sampled_from(["a", "b", "c", ".", "/a", "/b", "-", "0", ".py", "*", "?", "!"]), min_size=1, max_size=7
)


@settings(max_examples=600, deadline=None)
@given(PATTERNS, PATHS.map("".join))
def test_agrees_with_the_slow_implementation(text: str, path: str) -> None:
    # a quantifier after `**/` is the one thing that no reader of GitHub's page can tell: it is taken as said already
    expected = _slow(text.replace("**/?", "**/").replace("**/+", "**/"), path) if "**/?" not in text else None
    if expected is not None and "**/+" not in text:
        assert pattern(text).matches(path) is expected


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), PATTERNS), min_size=1, max_size=5),
    st.lists(PATHS.map("".join), min_size=1, max_size=8),
)
def test_many_files_at_once_are_each_file_alone(signed: list[tuple[bool, str]], paths: list[str]) -> None:
    path_filter = PathFilter.of("!" * negative + text for negative, text in signed)
    files = Files(paths)
    included = set(files.named(files.included(path_filter)))
    for path in paths:
        last = [negative for negative, text in signed if _same(text, path)][-1:]
        assert (path in included) is path_filter.includes(path) is (last == [False])


def _same(text: str, path: str) -> bool:
    return pattern(text).matches(path)


def _burden(files: int, filters: int) -> float:
    """Return the seconds it takes to choose among scenarios of which a third is touched, and each says why."""
    letters = string.ascii_lowercase
    paths = [f"verl/{letters[i % 26]}/{letters[i // 26 % 26]}/file_{i}.py" for i in range(files)]
    kinds = (
        ("verl/{letter}/**", "!verl/**/file_{i}.py", "**/*.py", "tests/run_{i}.sh", "**/*_{i}.*"),
        ("verl/{letter}/**", "!verl/**", "docs/**/{i}*.md", "examples/*_{i}/*"),
        ("docs/{i}/**", "**/{i}_file.py", "recipe/*/{letter}/**", "uv.lock"),
    )
    scenarios = {
        str(i): PathFilter.of(text.format(i=i, letter=letters[i % 26]) for text in kinds[i % 3]) for i in range(filters)
    }
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        choices = choose(scenarios, paths)
        best = min(best, time.process_time() - started)
        assert [choice.touched for choice in choices] == [i % 3 == 0 for i in range(filters)]
    return best


def test_many_files_and_scenarios_take_less_than_a_second() -> None:
    assert _burden(5000, 500) < 1.0


def test_time_grows_no_faster_than_the_product() -> None:
    # four times the files and four times the filters: sixteen times the work, with room for a noisy machine
    assert _burden(4000, 400) < 16 * 2 * max(_burden(1000, 100), 0.005)


def test_a_pattern_made_to_be_slow_is_not() -> None:
    started = time.process_time()
    assert not pattern("**/" * 30 + "a+" * 1 + "**/**/b").matches("a/" * 60 + "c")
    assert not pattern("a?+" * 3 + "++??x").matches("a" * 200)
    assert time.process_time() - started < 1.0
