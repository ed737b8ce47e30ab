// What the parts of the proof have in common: pieces of scripts for the bare root, and what must hold.

/** Throws with what was seen. */
export function must(holds, what, seen = '') {
  if (!holds) throw new Error(`${what}${seen === '' ? '' : `; seen: ${(typeof seen === 'string' ? seen : JSON.stringify(seen)).slice(0, 3000)}`}`);
}

/** Starts a command in the background ($NAME is its process) and goes on when its output, in a file, holds a text. */
export function started(name, command, log, text) {
  return `${command} > ${log} 2>&1 & ${name}=$!
for try in $(seq 300); do if grep -qE '${text}' ${log}; then break; fi; kill -0 $${name} || { cat ${log}; exit 1; }; sleep 0.1; done
grep -qE '${text}' ${log}`;
}

export const serving = (command, log) => started('SERVER', command, log, '"server.ready"');
export const gateway = (log) => started('GATEWAY', 'plantroom simulate gateway --connection "$CONNECTION" --interval 1s', log, 'attached');

/** Asks until the answer of a command holds a text, 30 s at most. */
export function until(text, command) {
  return `for try in $(seq 100); do ANSWER=$(${command}); case $ANSWER in *${text}*) break ;; esac; sleep 0.3; done
case $ANSWER in *${text}*) ;; *) echo "never ${text}: $ANSWER"; exit 1 ;; esac`;
}

/** REST as the README calls it, with the key of the environment. */
export const REST = `rest() { curl --silent --show-error --fail-with-body --write-out '\\n' --cacert data/tls/ca.pem -H "X-API-Key: $PLANTROOM_API_KEY" -H "X-Organization-Id: $PLANTROOM_ORGANIZATION_ID" "$@"; }
execute() { rest "https://localhost:8443/api/v2/devices/$DEVICE/actuator-executions" -H 'Content-Type: application/json' -d "{\\"commandId\\": \\"$COMMAND\\", \\"params\\": {\\"position\\": $1}}" | sed 's/.*"executionId":"\\([^"]*\\)".*/\\1/'; }
execution() { rest "https://localhost:8443/api/v2/actuator-executions/$1"; }`;

/** The server ends in peace, with 0. */
export const STOPPED = 'kill -TERM $SERVER; wait $SERVER';
