"""The ready CDK app: a table, workers on it, alarms and a dashboard.

``cdk deploy --all`` deploys the example of this repository as it is. For an app of your own say where it is::

    cdk deploy --all -c app=shop.jobs:app -c table_name=shop -c queues=mail,default -c own_keys= \
        -c directory=../shop -c dockerfile=Dockerfile -c install=. -c source=.

or, with an image that exists already, ``-c image=ghcr.io/you/shop:1.2`` instead of the second line. ``-c
mode=scheduled`` runs a container every ``-c minutes=5`` instead of all the time, ``-c mode=function -c code=build`` a
Lambda function. The values that hold unless you say otherwise stand in ``cdk.json``: edit them there once you keep it.
"""

from pathlib import Path

from dynadurable_cdk.ready import build_app

if __name__ == "__main__":
    build_app(Path(__file__).resolve().parent).synth()
