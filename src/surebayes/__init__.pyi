"""Types of the public names, for type checkers and editors: `__init__.py` loads the same names when they are used."""

from surebayes import cluster as cluster
from surebayes import corpora as corpora
from surebayes import metrics as metrics
from surebayes import papers as papers
from surebayes import streams as streams
from surebayes import synthetic as synthetic
from surebayes.classifiers.class_normalized import CentroidClassifier as CentroidClassifier
from surebayes.classifiers.class_normalized import ClassNormalizedNB as ClassNormalizedNB
from surebayes.classifiers.discriminant import TermDiscriminant as TermDiscriminant
from surebayes.classifiers.joint import BernoulliNB as BernoulliNB
from surebayes.classifiers.joint import ComplementNB as ComplementNB
from surebayes.classifiers.multinomial import MultinomialNB as MultinomialNB
from surebayes.classifiers.opinion_pool import OpinionPoolNB as OpinionPoolNB
from surebayes.classifiers.poisson import PoissonNB as PoissonNB
from surebayes.classifiers.reversal import DecisionReversalNB as DecisionReversalNB
from surebayes.classifiers.term_weighting import TermWeighting as TermWeighting
from surebayes.classifiers.tuned_nb import TunedNB as TunedNB
from surebayes.core.score import Explanation as Explanation
from surebayes.errors import NotEnoughNegatives as NotEnoughNegatives
from surebayes.errors import StoreError as StoreError
from surebayes.errors import SurebayesError as SurebayesError
from surebayes.filter.filter import Filter as Filter
from surebayes.filter.verdict import Verdict as Verdict
from surebayes.guarantees.anytime import AnytimeCertificate as AnytimeCertificate
from surebayes.guarantees.budget import AlarmBudget as AlarmBudget
from surebayes.guarantees.budgeted_threshold import BudgetedThreshold as BudgetedThreshold
from surebayes.guarantees.certifying import certify as certify
from surebayes.guarantees.drift import DriftMonitor as DriftMonitor
from surebayes.guarantees.drift import ScoreMonitor as ScoreMonitor
from surebayes.guarantees.guaranteed_threshold import GuaranteedThreshold as GuaranteedThreshold
from surebayes.guarantees.running_audit import AlarmAudit as AlarmAudit
from surebayes.mail.message import Message as Message
from surebayes.mail.message import read_message as read_message
from surebayes.persist.estimators import load as load
from surebayes.persist.estimators import save as save
from surebayes.pool.view_pool import ViewPool as ViewPool
from surebayes.research.compare import compare as compare
from surebayes.text.count_vectorizer import CountVectorizer as CountVectorizer
from surebayes.text.hashing_vectorizer import HashingVectorizer as HashingVectorizer
from surebayes.text.scorer import TextScorer as TextScorer
from surebayes.text.side_by_side import Views as Views
from surebayes.text.tfidf_vectorizer import TfidfVectorizer as TfidfVectorizer

__version__: str
