"""The exercises of the course: reading them, showing them and checking answers."""

from uwaga_course.check import Verdict, check
from uwaga_course.exercises import Exercise, all_exercises, find_exercise

__all__ = ["Exercise", "Verdict", "all_exercises", "check", "find_exercise"]
