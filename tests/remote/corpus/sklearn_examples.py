"""scikit-learn, getting started and gallery: https://scikit-learn.org/stable/getting_started.html, ordinary least squares
example, cross-validation and preprocessing in the user guide"""

import numpy as np
import pandas as pd
from sklearn import cluster, decomposition, linear_model, metrics, preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, confusion_matrix, mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

iris_X = np.random.default_rng(1).normal(size=(90, 4)) + np.repeat(np.arange(3.0), 30)[:, None]  # shared
iris_y = np.repeat(np.arange(3), 30)  # shared
clf = RandomForestClassifier(n_estimators=5, random_state=0)
clf.fit(iris_X, iris_y)
clf.predict(iris_X)
clf.feature_importances_
StandardScaler().fit(iris_X).transform(iris_X)
StandardScaler().fit_transform(iris_X)
pipe = make_pipeline(StandardScaler(), LogisticRegression())
X_train, X_test, y_train, y_test = train_test_split(iris_X, iris_y, random_state=0)
X_train.shape
pipe.fit(X_train, y_train)
accuracy_score(pipe.predict(X_test), y_test)
pipe.predict_proba(X_test)
pipe.score(X_test, y_test)
confusion_matrix(y_test, pipe.predict(X_test))
cross_validate(LinearRegression(), iris_X, iris_y)["test_score"]
cross_val_score(LinearRegression(), iris_X, iris_y, cv=5)
cross_val_score(LinearRegression(), iris_X, iris_y, cv=3, n_jobs=-1)
search = GridSearchCV(estimator=Ridge(), param_grid={"alpha": [0.1, 1.0, 10.0]}, cv=3)
search.fit(X_train, y_train)
search.best_params_
search.best_score_
search.score(X_test, y_test)
regr = linear_model.LinearRegression()
regr.fit(X_train, y_train)
y_pred = regr.predict(X_test)
print("Coefficients: \n", regr.coef_)
regr.coef_
regr.intercept_
mean_squared_error(y_test, y_pred)
r2_score(y_test, y_pred)
print("Mean squared error: %.2f" % mean_squared_error(y_test, y_pred))  # refused: PrivateValue
print(f"R2: {r2_score(y_test, y_pred):.2f}")  # refused: PrivateValue
scaler = preprocessing.StandardScaler().fit(X_train)
scaler.mean_
scaler.scale_
X_scaled = scaler.transform(X_train)
X_scaled.mean(axis=0)
preprocessing.MinMaxScaler().fit_transform(X_train)
preprocessing.normalize(X_train, norm="l2")
preprocessing.scale(X_train)
preprocessing.KBinsDiscretizer(n_bins=3, encode="ordinal", quantile_method="averaged_inverted_cdf").fit_transform(X_train)
PolynomialFeatures(2).fit_transform(X_train[:, :2])
kmeans = cluster.KMeans(n_clusters=3, n_init=2, random_state=0).fit(iris_X)
kmeans.cluster_centers_
kmeans.labels_
kmeans.inertia_
pca = decomposition.PCA(n_components=2)
pca.fit(iris_X).transform(iris_X)
pca.explained_variance_ratio_
knn = KNeighborsClassifier(n_neighbors=5).fit(X_train, y_train)
knn.predict(X_test)
knn.score(X_test, y_test)
svc = SVC(kernel="linear", C=1).fit(X_train, y_train)
svc.score(X_test, y_test)
svc.support_vectors_.shape  # refused: PrivateValue
gnb = GaussianNB().fit(X_train, y_train)
(y_test != gnb.predict(X_test)).sum()
tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X_train, y_train)
tree.predict(X_test)
tree.tree_
metrics.classification_report(y_test, tree.predict(X_test))
metrics.f1_score(y_test, tree.predict(X_test), average="macro")
metrics.roc_auc_score(y_test == 1, tree.predict_proba(X_test)[:, 1])
metrics.precision_recall_fscore_support(y_test, knn.predict(X_test), zero_division=0)
metrics.ConfusionMatrixDisplay.from_predictions(y_test, knn.predict(X_test))  # refused: OperationRefused
people = pd.DataFrame({"age": [22.0, 38.0, np.nan, 35.0, 54.0, 2.0], "fare": [7.25, 71.28, 7.92, 53.1, 51.86, 21.07], "sex": ["male", "female", "female", "female", "male", "male"]})  # shared
survived = pd.Series([0, 1, 1, 1, 0, 0], name="survived")  # shared
numeric = Pipeline(steps=[("imputer", SimpleImputer(strategy="median")), ("scaler", StandardScaler())])
both = ColumnTransformer(transformers=[("num", numeric, ["age", "fare"]), ("cat", OneHotEncoder(handle_unknown="ignore"), ["sex"])])
titanic = Pipeline(steps=[("prep", both), ("clf", LogisticRegression())])
titanic.fit(people, survived)
titanic.predict(people)
titanic.named_steps["clf"].coef_
OneHotEncoder(sparse_output=False).fit_transform(people[["sex"]])
SimpleImputer().fit_transform(people[["age"]])
if accuracy_score(y_test, y_pred.round()) > 0.5:
    print("good")  # refused: PrivateValue
