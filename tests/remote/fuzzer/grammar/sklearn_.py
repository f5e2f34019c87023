"""Of scikit-learn: estimators that are placed before and after they have learnt, splits, settings."""

TEMPLATES = (
    "{=} = X * 1",
    "{=} = x * 1",
    "_e = sklearn.preprocessing.StandardScaler()\n_e = remote(_e)\n{=} = _e.fit({m}).mean_",
    "_e = remote(sklearn.preprocessing.StandardScaler())\n{=} = _e.fit_transform({m})",
    "_e = sklearn.preprocessing.StandardScaler().partial_fit([[1.0, 2.0, 3.0]])\n"
    "_e = remote(_e)\n_e.partial_fit({m})\n{=} = _e.mean_",
    "_e = sklearn.linear_model.LinearRegression()\n{=} = remote(_e).fit({m}, {v}).coef_",
    "_e = sklearn.linear_model.LinearRegression(fit_intercept=False)\n"
    "{=} = remote(_e).fit({m}, {v}).predict({m})",
    "_e = remote(sklearn.linear_model.LogisticRegression(max_iter=5)).fit({m}, y)\n"
    "{=} = _e.decision_function({m}).shape",
    "_e = remote(sklearn.linear_model.LogisticRegression(max_iter=5)).fit({m}, y)\n"
    "{=} = _e.decision_function({m}).ndim",
    "_e = remote(sklearn.linear_model.LogisticRegression(max_iter=5)).fit({m}, y)\n{=} = _e.predict({m})",
    "_e = remote(sklearn.linear_model.LogisticRegression(max_iter=5)).fit({m}, y)\n{=} = len(_e.classes_)",
    "_e = remote(sklearn.linear_model.LogisticRegression(max_iter=5)).fit({m}, y)\n{=} = _e.score({m}, y)",
    "_e = remote(sklearn.linear_model.LogisticRegression(max_iter=5)).fit({m}, y)\n{=} = _e.coef_.shape",
    "_e = remote(sklearn.cluster.KMeans(2, random_state=0, n_init=1)).fit({m})\n{=} = _e.cluster_centers_",
    "_e = remote(sklearn.decomposition.PCA(2)).fit({m})\n{=} = _e.explained_variance_",
    "_e = remote(sklearn.linear_model.Ridge())\n"
    "_e.fit({m}, {v})\n_p = _e.predict({m})\n_e.fit({m} * 2, {v})\n{=} = _p",
    "with sklearn.config_context(transform_output='pandas'):\n"
    "    {=} = remote(sklearn.preprocessing.StandardScaler()).fit_transform({m})",
    "_e = sklearn.preprocessing.StandardScaler().set_output(transform='pandas')\n"
    "{=} = remote(_e).fit_transform({m})",
    "_e = sklearn.preprocessing.MinMaxScaler()\n_e.clip = True\n{=} = remote(_e).fit({m} / 2).transform({m})",
    "_e = remote(sklearn.preprocessing.OneHotEncoder(sparse_output=False))\n"
    "{=} = _e.fit_transform(k.reshape(-1, 1))",
    "_e = remote(sklearn.preprocessing.OneHotEncoder(sparse_output=False))\n"
    "{=} = _e.fit_transform(k.reshape(-1, 1)).shape",
    "{=} = remote(sklearn.metrics).mean_squared_error({v}, {v})",
    "{=} = remote(sklearn.metrics).confusion_matrix(y, k % 3)",
    "{=} = remote(sklearn.metrics).confusion_matrix(y, k % 3).shape",
    "{=} = remote(sklearn.model_selection).train_test_split({m}, random_state=0)[0].shape",
    "{=} = remote(sklearn.preprocessing).scale({m})",
    "_a = {m}.copy()\n_e = remote(sklearn.preprocessing.StandardScaler(copy=False)).fit_transform(_a)\n"
    "{=} = _a",
    "_m = {m}.copy()\n_e = remote(sklearn.preprocessing.StandardScaler()).fit(_m)\n"
    "_m[0] = {#}\n{=} = _e.mean_",
    "_e = remote(sklearn.linear_model.SGDRegressor(random_state=0))\n"
    "for _i in range(2):\n    _e.partial_fit({m}, {v})\n{=} = _e.coef_",
    "{=} = {v|m} {op} {v|m|n|#}",
    "{=} = {m}[{[]}]",
    "{v|m} {iop} {#|v|n}",
    "{v|m}[{at}] = {#|n}",
    "{=} = {m}.mean(axis=0)",
)
