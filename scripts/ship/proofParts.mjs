// Shared by the parts of the test: shell snippets for the root file system, and assertions.

/** Throws an error with the details if the condition is false. */
export function assertThat(condition, message, details = '') {
  if (!condition)
    throw new Error(
      `${message}${details === '' ? '' : `; got: ${(typeof details === 'string' ? details : JSON.stringify(details)).slice(0, 3000)}`}`,
    );
}

/** Starts a command in the background ($NAME is its PID) and continues when its output, in a file, contains a text. */
export function startInBackground(name, command, log, text) {
  return `${command} > ${log} 2>&1 & ${name}=$!
for try in $(seq 300); do if grep -qE '${text}' ${log}; then break; fi; kill -0 $${name} || { cat ${log}; exit 1; }; sleep 0.1; done
grep -qE '${text}' ${log}`;
}

export const startServer = (command, log) => startInBackground('SERVER', command, log, '"server.ready"');
export const startGateway = (log) =>
  startInBackground('GATEWAY', 'plantroom simulate gateway --connection "$CONNECTION" --interval 1s', log, 'attached');

/** Repeats a command until its output contains a text, for at most 30 s. */
export function repeatUntil(text, command) {
  return `for try in $(seq 100); do ANSWER=$(${command}); case $ANSWER in *${text}*) break ;; esac; sleep 0.3; done
case $ANSWER in *${text}*) ;; *) echo "never ${text}: $ANSWER"; exit 1 ;; esac`;
}

/** Shell functions for REST calls, as in the README, with the API key of the environment. */
export const REST = `rest() { curl --silent --show-error --fail-with-body --write-out '\\n' --cacert data/tls/ca.pem -H "X-API-Key: $PLANTROOM_API_KEY" -H "X-Organization-Id: $PLANTROOM_ORGANIZATION_ID" "$@"; }
execute() { rest "https://localhost:8443/api/v2/devices/$DEVICE/actuator-executions" -H 'Content-Type: application/json' -d "{\\"commandId\\": \\"$COMMAND\\", \\"params\\": {\\"position\\": $1}}" | sed 's/.*"executionId":"\\([^"]*\\)".*/\\1/'; }
execution() { rest "https://localhost:8443/api/v2/actuator-executions/$1"; }`;

/** Stops the server, whose exit code must be 0. */
export const STOP_SERVER = 'kill -TERM $SERVER; wait $SERVER';
