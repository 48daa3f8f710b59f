"""The questions of the quizzes; `spinup_lab.exercises.quiz` reads them."""
