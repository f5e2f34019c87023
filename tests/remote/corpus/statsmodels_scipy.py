"""statsmodels notebooks (OLS, discrete choice, GLM, robust, time series), https://www.statsmodels.org/stable/examples/, and
the SciPy tutorial on statistics, https://docs.scipy.org/doc/scipy/tutorial/stats.html"""

import numpy as np
import pandas as pd
import scipy
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import integrate, interpolate, linalg, optimize, signal, spatial, special, stats
from statsmodels.tsa.arima.model import ARIMA

np.random.seed(9876789)
nsample = 50
x = np.linspace(0, 10, nsample)  # shared
X = np.column_stack((x, x**2))
X = sm.add_constant(X)
beta = np.array([1, 0.1, 10])
e = np.random.normal(size=nsample)
y = np.dot(X, beta) + e
model = sm.OLS(y, X)
results = model.fit()
results.params
results.rsquared
print("Parameters: ", results.params)
results.bse
results.pvalues
results.conf_int()
results.predict()
results.resid
results.fittedvalues
results.aic
results.f_test(np.eye(3)[1:]).pvalue
results.t_test([0, 1, 0]).tvalue
results.cov_params()
results.get_prediction().summary_frame()
print(results.summary())
np.linalg.cond(results.model.exog)
wls = sm.WLS(y, X, weights=1.0 / (1 + x)).fit()
wls.params
rlm = sm.RLM(y, X, M=sm.robust.norms.HuberT()).fit()
rlm.params
spector = pd.DataFrame({"GPA": np.random.default_rng(2).uniform(2, 4, 60), "TUCE": np.random.default_rng(3).integers(12, 30, 60).astype(float), "GRADE": np.random.default_rng(4).integers(0, 2, 60)})  # shared
exog = sm.add_constant(spector[["GPA", "TUCE"]])
logit = sm.Logit(spector["GRADE"], exog).fit(disp=0)
logit.params
margeff = logit.get_margeff()
margeff.margeff
logit.llf
sm.Probit(spector["GRADE"], exog).fit(disp=0).params
poisson = sm.GLM(spector["TUCE"], exog, family=sm.families.Poisson()).fit()
poisson.params
poisson.deviance
sm.GLM(spector["GRADE"], exog, family=sm.families.Binomial()).fit().summary2().tables[1]
smf.ols("TUCE ~ GPA", data=spector).fit().params
smf.ols("TUCE ~ GPA + GRADE", spector).fit().rsquared
smf.logit("GRADE ~ GPA", spector).fit(disp=0).params
sm.stats.DescrStatsW(spector["GPA"]).mean
sm.stats.durbin_watson(results.resid)
sm.stats.ttest_ind(spector["GPA"], spector["TUCE"])
sm.tsa.acf(e, nlags=5)
ts = pd.Series(np.cumsum(np.random.default_rng(5).normal(size=80)), index=pd.date_range("2000-01-31", periods=80, freq="ME"))  # shared
sm.tsa.stattools.adfuller(ts)
sm.tsa.seasonal_decompose(ts).trend
arima = ARIMA(ts, order=(1, 0, 0)).fit()
arima.params
arima.forecast(3)
sm.nonparametric.lowess(y, x)
sm.OLS.from_formula("TUCE ~ GPA", spector)
sm.qqplot(results.resid)  # refused: OperationRefused
a = np.random.default_rng(6).normal(5, 10, 60)  # shared
b = np.random.default_rng(7).normal(5.5, 11, 60)  # shared
stats.ttest_1samp(a, 5.0)
stats.ttest_ind(a, b)
stats.ttest_ind(a, b, equal_var=False)
stats.ttest_rel(a, b)
stats.ttest_ind(a, b).pvalue
t, p = stats.ttest_ind(a, b)
stats.pearsonr(a, b)
stats.spearmanr(a, b)
stats.kendalltau(a, b)
stats.mannwhitneyu(a, b)
stats.wilcoxon(a, b)
stats.ks_2samp(a, b)
stats.kstest(a, "norm")
stats.linregress(a, b)
stats.linregress(a, b).slope
stats.shapiro(a)
stats.normaltest(a)
stats.skew(a)
stats.kurtosis(a)
stats.describe(a)
stats.zscore(a)
stats.f_oneway(a, b)
stats.kruskal(a, b)
stats.levene(a, b)
stats.bartlett(a, b)
stats.chi2_contingency(np.array([[10, 20], [30, 40]]))
stats.norm.cdf(a)
stats.norm.fit(a)
stats.t.ppf(0.975, 10)
stats.iqr(a)
stats.trim_mean(a, 0.1)
stats.sem(a)
stats.mode(np.round(a))
stats.rankdata(a)
stats.gaussian_kde(a)(np.array([0.0, 5.0]))
stats.bootstrap((a,), np.mean, random_state=1)  # refused: OperationRefused
stats.entropy(np.abs(a))
stats.anderson(a)  # refused: OperationRefused
stats.chisquare(np.abs(a[:5]), np.abs(a[:5]))
stats.probplot(a)
stats.energy_distance(a, b)
stats.wasserstein_distance(a, b)
special.expit(a)
special.gamma(np.abs(a))
special.erf(a)
special.logsumexp(a)
special.softmax(a)
interpolate.interp1d(x, y)(2.5)
interpolate.CubicSpline(x, y)(np.array([1.5, 2.5]))
signal.detrend(a)
signal.savgol_filter(a, 7, 2)
signal.convolve(a, np.ones(3) / 3, mode="same")
signal.periodogram(a)
spatial.distance.cdist(X, X)
spatial.distance.pdist(X)
spatial.distance.euclidean(a, b)
linalg.inv(X[:3])
linalg.svd(X[:3])
optimize.curve_fit(lambda x, m, c: m * x + c, x, y)  # refused: OperationRefused
integrate.trapezoid(y, x)
