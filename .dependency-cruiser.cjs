// The import law of the house (docs/decisions/0001). One rule, one sentence; its name is what lint prints.
const order = ['access', 'media', 'codec', 'profiles', 'sensorTemplates', 'connections', 'devices', 'commands', 'executions', 'telemetry', 'operations'];
const domains = order.join('|');
const inside = (room) => `^src/${room}/`;
const own = (name) => `(^|/)node_modules/${name}/`;
/** Only the files in `allowed` may import what matches `what`. */
const only = (name, comment, allowed, what) => ({ name, comment, severity: 'error', from: { path: '^src/', pathNot: allowed }, to: { path: what } });
const gateway = '^src/connections/connectors/gateway/';
const brokers = '^src/connections/connectors/(broker|mqtt|chirpstack)/';
/** Files that see the wire. */
const WIRE = `Handlers\\.ts$|Messages\\.ts$|${gateway}`;

module.exports = {
  forbidden: [
    { name: 'no-cycles', comment: 'no import cycle, types included', severity: 'error', from: { path: '^src/', pathNot: '^src/(client/)?gen/' }, to: { circular: true } },
    { name: 'resolvable', comment: 'every import can be found', severity: 'error', from: { path: '^src/' }, to: { couldNotResolve: true } },
    { name: 'declared', comment: 'only packages in package.json', severity: 'error', from: { path: '^src/' }, to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown', 'npm-dev'] } },
    { name: 'kernel-stands-alone', severity: 'error', from: { path: inside('kernel') }, to: { path: '^src/', pathNot: inside('kernel') } },
    { name: 'gen-stands-alone', severity: 'error', from: { path: inside('gen') }, to: { path: '^src/', pathNot: inside('gen') } },
    { name: 'client-stands-alone', comment: 'plantroom-client holds no code of the server', severity: 'error', from: { path: inside('client') }, to: { path: '^src/', pathNot: inside('client') } },
    { name: 'client-is-for-the-command-line', comment: 'the server does not stand on its own client', severity: 'error', from: { path: '^src/', pathNot: inside('(client|cli)') }, to: { path: inside('client') } },
    { name: 'client-only-through-its-doors', comment: 'the command line uses what the package shows', severity: 'error', from: { path: inside('cli') }, to: { path: inside('client'), pathNot: '^src/client/(index|gateway/index)\\.ts$' } },
    only('client-packages', 'what plantroom-client declares', '^src/client/gen/|^src/(?!client/)', own('(?!(@grpc/grpc-js|@bufbuild/protobuf|better-sqlite3)/)[^/]+')),
    { name: 'config-knows-kernel', severity: 'error', from: { path: inside('config') }, to: { path: '^src/', pathNot: inside('(config|kernel)') } },
    { name: 'database-knows-kernel-and-config', severity: 'error', from: { path: inside('database') }, to: { path: '^src/', pathNot: inside('(database|kernel|config)') } },
    { name: 'rpc-knows-no-domain', severity: 'error', from: { path: inside('rpc') }, to: { path: '^src/', pathNot: inside('(rpc|kernel|gen|config)') } },
    {
      name: 'domains-only-through-index',
      comment: 'another room is entered by its index.ts',
      severity: 'error',
      from: { path: `^src/(${domains})/` },
      to: { path: `^src/(${domains})/`, pathNot: `^src/$1/|^src/(${domains})/index\\.ts$` },
    },
    ...order.slice(0, -1).map((room, at) => ({
      name: `${room}-stands-below`,
      comment: `${room} may not import what stands above it: ${order.slice(at + 1).join(', ')}`,
      severity: 'error',
      from: { path: inside(room) },
      to: { path: inside(`(${order.slice(at + 1).join('|')})`) },
    })),
    {
      name: 'domains-know',
      comment: 'a domain stands on kernel, database, domains',
      severity: 'error',
      from: { path: `^src/(${domains})/`, pathNot: WIRE },
      to: { path: '^src/', pathNot: `^src/(${domains}|kernel|database)/` },
    },
    {
      name: 'wire-files-know',
      comment: 'handlers, messages and the gateway connector know gen and the words of rpc as well, and nothing else',
      severity: 'error',
      from: { path: `^src/(${domains})/.*(Handlers|Messages)\\.ts$|${gateway}` },
      to: { path: '^src/', pathNot: `^src/(${domains}|kernel|database|gen)/|^src/rpc/(callContext|handlers)\\.ts$` },
    },
    { name: 'config-through-index', severity: 'error', from: { path: '^src/', pathNot: inside('config') }, to: { path: inside('config'), pathNot: '^src/config/index\\.ts$' } },
    { name: 'handlers-know-no-repository', severity: 'error', from: { path: 'Handlers\\.ts$' }, to: { path: 'Repository\\.ts$' } },
    only('knex-in-repositories', 'SQL lives in database/ and *Repository.ts', '^src/database/|Repository\\.ts$|^src/client/gateway/store/sqlite[^/]*\\.ts$', own('(knex|pg|better-sqlite3)')),
    only('grpc-at-the-edge', 'grpc-js lives in rpc/, gen/, the gateway connector, and as a client in client/ and cli/', `^src/(rpc|gen|cli|client)/|${gateway}`, own('@grpc/(grpc-js|proto-loader)')),
    only('quickjs-in-codec', 'the script engine lives in codec/', '^src/codec/', own('(quickjs-emscripten-core|@jitl/[^/]+)')),
    only('addresses-in-one-file', 'networks are read and compared in one place', '^src/access/keys/addresses\\.ts$', own('ipaddr\\.js')),
    only('mqtt-in-connectors', 'the MQTT client lives in the broker connectors, and in the devices that cli/simulate plays', `${brokers}|^src/cli/simulate/`, own('(mqtt|mqtt-packet)')),
    only('ajv-in-connections', 'JSON Schema is checked in connections/', inside('connections'), own('(ajv|ajv-formats)')),
    only('http-in-rest', 'the HTTP server lives in rpc/rest/', inside('rpc/rest'), own('(fastify|@fastify/[^/]+|range-parser)')),
    only('pictures-in-media', 'the codecs of pictures live in the worker of media/', inside('media/worker'), own('(@jsquash/[^/]+|omggif|image-size)')),
    only('toml-and-json5-in-imports', 'the files of device repositories are read in profiles/import/', inside('profiles/import'), own('(smol-toml|json5)')),
    only('yaml-in-imports-and-config', 'YAML is read in profiles/import/ and config/', inside('(profiles/import|config)'), own('yaml')),
    only('luxon-in-telemetry', 'calendars and time zones live in telemetry/', inside('telemetry'), own('luxon')),
    only('pino-in-app', 'everybody else takes the Logger', '^src/app\\.ts$|^src/kernel/logger|^src/cli/log', own('pino')),
    only('app-is-the-root', 'only the command line builds the application', '^src/(main\\.ts|cli/)', '^src/app\\.ts$'),
    only('app-has-its-own-room', 'the parts of the composition root are entered by app.ts', '^src/(app\\.ts|app/)', '^src/app/'),
    only('metrics-in-operations', 'the registry of metrics lives in operations/metrics/; other rooms say what they count by an interface of their own', inside('operations/metrics'), own('prom-client')),
    only('traces-in-operations', 'OpenTelemetry lives in operations/traces/; the edge takes a Tracer of its own words', inside('operations/traces'), own('@opentelemetry/[^/]+')),
    only('archives-in-backup', 'the format of backup files is known in operations/backup/', inside('operations/backup'), own('(tar-stream|age-encryption|croner)')),
    only('cli-is-the-top', 'nobody stands on the command line', '^src/(main\\.ts|cli/)', inside('cli')),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['require', 'node', 'types', 'default'], extensions: ['.ts', '.js', '.json'] },
  },
};
