from .estimators import (
    BayesNet as BayesNet,
    CoxRegression as CoxRegression,
    DecisionTree as DecisionTree,
    LogisticRegression as LogisticRegression,
    PpCox as PpCox,
    PpSvm as PpSvm,
    SupportVectorMachine as SupportVectorMachine,
    load_model as load_model,
)
