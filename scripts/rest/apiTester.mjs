// Runs schemathesis, a property-based API tester, against /openapi.json of a server of its own.
// node scripts/rest/apiTester.mjs PROGRAM [its options...]: PROGRAM is `schemathesis`, or where it is.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withServer } from './throwAwayServer.mjs';

const CHECKS = ['not_a_server_error', 'status_code_conformance', 'content_type_conformance', 'response_headers_conformance', 'response_schema_conformance', 'negative_data_rejection', 'unsupported_method', 'allow_header_conformance', 'ignored_auth'];
// Streams do not end; the tester would revoke its own key.
const LEFT_OUT = '(?i)stream|watch|revokeApiKey|grpcDownloadMedia';
const SEED = '20261122';
const MOST_MS = 600_000;

const [program, ...options] = process.argv.slice(2);
if (!program) throw new Error('name the program: node scripts/rest/apiTester.mjs schemathesis');
process.exitCode = await withServer(async ({ base, folder, headers }) => {
  const ids = { organizationId: headers['X-Organization-Id'], ...(await furnish(base, headers)) };
  return await run(base, folder, headers, ids);
});

/** One of each kind, as the document's examples make them; their ids by the names of parameters and collections. */
async function furnish(base, headers) {
  const post = async (path, body) => {
    const answer = await fetch(base + path, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`POST ${path}: ${answer.status} ${await answer.text()}`);
    return await answer.json();
  };
  const key = await post('/api/v2/devices/sensor-templates/normalized-keys', { name: 'tester_temperature' });
  const template = await post('/api/v2/devices/sensor-templates', { keyNameId: key.id, sensorType: 'temperature', valueType: 'number' });
  const connection = await post('/api/v2/connections', { connectorId: 'gateway', name: 'Tester gateway' });
  const device = await post('/api/v2/devices', { name: 'Tester', physicalDevice: { clientDeviceId: 'tester-1', connectionId: connection.id } });
  const { sensors } = await post(`/api/v2/devices/${device.id}/sensors`, { sensorTemplateIds: [template.id] });
  const command = await post(`/api/v2/devices/${device.id}/commands`, { command: { name: 'Set', mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{"on": true}' } });
  const { executionId } = await post(`/api/v2/devices/${device.id}/actuator-executions`, { commandId: command.id });
  const templates = '/api/v2/devices/sensor-templates';
  return {
    '/api/v2/devices': device.id,
    [templates]: template.id,
    [`${templates}/normalized-keys`]: key.id,
    '/api/v2/connections': connection.id,
    '/api/v2/organizations': headers['X-Organization-Id'],
    connectionId: connection.id,
    clientDeviceId: 'tester-1',
    sensorId: sensors[0].id,
    commandId: command.id,
    executionId,
  };
}

async function run(base, folder, headers, ids) {
  const [hooks, config] = ['hooks.py', 'schemathesis.toml'].map((name) => join(dirname(fileURLToPath(import.meta.url)), name));
  const given = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const args = ['--config-file', config, 'run', `${base}/openapi.json`, ...given, '--seed', SEED, '--workers', '1', '--checks', CHECKS.join(','), '--exclude-operation-id-regex', LEFT_OUT, '--request-timeout', '30', '--no-shrink', '--warnings', 'off', ...options];
  const tester = spawn(program, args, { env: { ...process.env, SCHEMATHESIS_HOOKS: hooks, PLANTROOM_TESTER_IDS: JSON.stringify(ids), NO_COLOR: '1' }, stdio: ['ignore', 'inherit', 'inherit'], cwd: folder });
  const limit = setTimeout(() => tester.kill('SIGKILL'), MOST_MS);
  const code = await new Promise((resolve) => tester.once('exit', (status) => resolve(status ?? 1)));
  clearTimeout(limit);
  return code;
}
