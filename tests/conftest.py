"""Fixtures for all tests: a small model with random weights, and a simulated site with a model trained on it."""

import faulthandler
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from tiny import tiny_model

from clickvec.model.encoder import Encoder

# The same examples in every run; `make explore` tries new ones, with --hypothesis-profile=explore.
# Hypothesis has other defaults where the variable CI is set, so each setting that matters is given here.
SLOW = [hypothesis.HealthCheck.too_slow]  # a busy machine is no reason to fail
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=SLOW)
hypothesis.settings.register_profile(
    "explore", derandomize=False, max_examples=300, deadline=None, print_blob=True, suppress_health_check=SLOW
)
hypothesis.settings.load_profile("repeatable")


TEST_SECONDS = float(os.environ.get("CLICKVEC_TEST_SECONDS", "600"))  # a test that takes longer fails
_stderr = -1  # where the stacks of all threads go if a test cannot even be interrupted


def pytest_configure() -> None:
    """One thread for torch, here and in programs that tests start: minibatches are small, and threads that wait spin.

    On two cores that do other work too, the tests of training take a minute like this, and ten without.
    """
    global _stderr
    _stderr = os.dup(2)
    _restore_signals()
    signal.signal(signal.SIGALRM, _too_long)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not Path("/dev/nvidia0").exists():
        # Without a GPU, its kernels run in Triton's interpreter. Any library may load Triton, which reads this once.
        os.environ.setdefault("TRITON_INTERPRET", "1")


def _restore_signals() -> None:
    """Undo what `nohup` and `&` ignore, because each program that a test starts would ignore it too.

    This process still survives SIGHUP after nohup: a handler, unlike SIG_IGN, is not inherited by programs. Workers of
    xdist end with the process that started them.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN or "PYTEST_XDIST_WORKER" in os.environ:
        signal.signal(signal.SIGHUP, lambda *_: None)


def _too_long(*_: object) -> None:
    pytest.fail(f"the test takes longer than {TEST_SECONDS:g} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Let no test wait for ever: it fails at the limit, its clean-up too; C code that does not return ends the run."""
    signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS, TEST_SECONDS / 2)
    faulthandler.dump_traceback_later(4 * TEST_SECONDS, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()


def pytest_unconfigure() -> None:
    """Do not wait for ever for threads that a test has left."""
    faulthandler.dump_traceback_later(TEST_SECONDS, exit=True, file=_stderr)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped and why, the most frequent reason first."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5} {reason}")


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


@pytest.fixture
def encoder(model_folder: Path) -> Encoder:
    return Encoder.load(model_folder)


# --- for the tests of the command line, which only read them -----------------------------------------------------


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from command import ok

    path = tmp_path_factory.mktemp("cli") / "site"
    ok("simulate", path, "--impressions", "10000", "--dev-queries", "20", "--test-queries", "20")
    return path


@pytest.fixture(scope="session")
def trained(site: Path) -> Path:
    from command import SMALL, ok

    pytest.importorskip("torch")
    ok("train", site / "clicks.tsv.gz", "--dev", site / "dev.tsv.gz", "--out", site.parent / "trained", *SMALL)
    return site.parent / "trained"


@pytest.fixture(scope="session")
def indexed(site: Path, trained: Path) -> Path:
    from command import ok

    ok("index", trained, site / "titles.tsv.gz", "--out", site.parent / "indexed")
    return site.parent / "indexed"
