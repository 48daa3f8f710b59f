"""The questions of the quizzes; `spinup.exercises.quiz` reads them."""
