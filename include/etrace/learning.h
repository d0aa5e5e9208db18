// Everything about learning below the learner: the rules, for their users (etrace/rules.h) and their authors
// (etrace/learning_rule.h), and the executor (etrace/executor.h).
#pragma once

#include "etrace/executor.h"
#include "etrace/learning_rule.h"
#include "etrace/rules.h"
