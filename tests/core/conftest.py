"""The fixture that tests of the engine and the localizers share."""

from tests.core.problems import problem
