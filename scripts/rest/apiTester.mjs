// Runs schemathesis, a property-based API tester, against /openapi.json of a temporary server:
// node scripts/rest/apiTester.mjs PROGRAM [OPTIONS...]. PROGRAM is `schemathesis` or its path.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createSite } from './site.mjs';
import { withTemporaryServer } from './temporaryServer.mjs';

const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
  'unsupported_method',
  'allow_header_conformance',
  'ignored_auth',
];
// Streams do not end, and the tester would revoke its own key.
const EXCLUDED_OPERATIONS = '(?i)stream|watch|revokeApiKey|grpcDownloadMedia';
const SEED = '20261122';
const MAX_DURATION_MS = 600_000;

const [program, ...options] = process.argv.slice(2);
if (!program) throw new Error('missing program: node scripts/rest/apiTester.mjs schemathesis');
process.exitCode = await withTemporaryServer(async ({ base, folder, headers }) => {
  const ids = { organizationId: headers['X-Organization-Id'], ...(await createSite(base, headers)) };
  return await runTester(base, folder, headers, ids);
});

async function runTester(base, folder, headers, ids) {
  const [hooks, config] = ['hooks.py', 'schemathesis.toml'].map((name) =>
    join(dirname(fileURLToPath(import.meta.url)), name),
  );
  const headerArgs = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const args = [
    '--config-file',
    config,
    'run',
    `${base}/openapi.json`,
    ...headerArgs,
    '--seed',
    SEED,
    '--workers',
    '1',
    '--checks',
    CHECKS.join(','),
    '--exclude-operation-id-regex',
    EXCLUDED_OPERATIONS,
    '--request-timeout',
    '30',
    '--no-shrink',
    '--warnings',
    'off',
    ...options,
  ];
  const tester = spawn(program, args, {
    env: { ...process.env, SCHEMATHESIS_HOOKS: hooks, PLANTROOM_TESTER_IDS: JSON.stringify(ids), NO_COLOR: '1' },
    stdio: ['ignore', 'inherit', 'inherit'],
    cwd: folder,
  });
  const limit = setTimeout(() => tester.kill('SIGKILL'), MAX_DURATION_MS);
  const code = await new Promise((resolve) => tester.once('exit', (status) => resolve(status ?? 1)));
  clearTimeout(limit);
  return code;
}
