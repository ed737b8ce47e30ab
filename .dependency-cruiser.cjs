// The import rules (docs/decisions/0001-architecture.md). Lint prints the name of a broken rule.
const order = [
  'access',
  'media',
  'codec',
  'profiles',
  'sensorTemplates',
  'connections',
  'devices',
  'commands',
  'executions',
  'telemetry',
  'dashboards',
  'organizationRemoval',
  'backup',
  'observability',
  'accessGuard',
];
const domains = order.join('|');
const inside = (module) => `^src/${module}/`;
const own = (name) => `(^|/)node_modules/${name}/`;
/** Only the files in `allowed` may import what matches `what`. */
const only = (name, comment, allowed, what) => ({
  name,
  comment,
  severity: 'error',
  from: { path: '^src/', pathNot: allowed },
  to: { path: what },
});
const gateway = '^src/connections/connectors/gateway/';
const brokers = '^src/connections/connectors/(broker|mqtt|chirpstack)/';
/** Files that may use generated messages. */
const WIRE = `Handlers\\.ts$|Messages\\.ts$|${gateway}`;

module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      comment: 'no import cycle, types included',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(client/)?gen/' },
      to: { circular: true },
    },
    {
      name: 'resolvable',
      comment: 'every import can be found',
      severity: 'error',
      from: { path: '^src/' },
      to: { couldNotResolve: true },
    },
    {
      name: 'declared',
      comment: 'only packages in package.json',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown', 'npm-dev'] },
    },
    {
      name: 'kernel-imports-only-kernel',
      severity: 'error',
      from: { path: inside('kernel') },
      to: { path: '^src/', pathNot: inside('kernel') },
    },
    {
      name: 'gen-imports-only-gen',
      severity: 'error',
      from: { path: inside('gen') },
      to: { path: '^src/', pathNot: inside('gen') },
    },
    {
      name: 'client-imports-only-client',
      comment: 'plantroom-client holds no code of the server',
      severity: 'error',
      from: { path: inside('client') },
      to: { path: '^src/', pathNot: inside('client') },
    },
    {
      name: 'client-only-in-cli',
      comment: 'the server does not use its own client',
      severity: 'error',
      from: { path: '^src/', pathNot: inside('(client|cli)') },
      to: { path: inside('client') },
    },
    {
      name: 'client-only-through-index',
      comment: 'the command line imports only the public entry points of the package',
      severity: 'error',
      from: { path: inside('cli') },
      to: { path: inside('client'), pathNot: '^src/client/(index|gateway/index)\\.ts$' },
    },
    only(
      'client-packages',
      'only packages that plantroom-client declares',
      '^src/client/gen/|^src/(?!client/)',
      own('(?!(@grpc/grpc-js|@bufbuild/protobuf|better-sqlite3)/)[^/]+'),
    ),
    {
      name: 'config-imports-only-kernel',
      severity: 'error',
      from: { path: inside('config') },
      to: { path: '^src/', pathNot: inside('(config|kernel)') },
    },
    {
      name: 'database-imports-only-kernel-and-config',
      severity: 'error',
      from: { path: inside('database') },
      to: { path: '^src/', pathNot: inside('(database|kernel|config)') },
    },
    {
      name: 'api-imports-no-domain',
      severity: 'error',
      from: { path: inside('api') },
      to: { path: '^src/', pathNot: inside('(api|kernel|gen|config)') },
    },
    {
      name: 'domains-only-through-index',
      comment: 'another module is imported only through its index.ts',
      severity: 'error',
      from: { path: `^src/(${domains})/` },
      to: { path: `^src/(${domains})/`, pathNot: `^src/$1/|^src/(${domains})/index\\.ts$` },
    },
    ...order.slice(0, -1).map((module, at) => ({
      name: `${module}-imports-only-lower-modules`,
      comment: `${module} may not import higher modules: ${order.slice(at + 1).join(', ')}`,
      severity: 'error',
      from: { path: inside(module) },
      to: { path: inside(`(${order.slice(at + 1).join('|')})`) },
    })),
    {
      name: 'domains-import-only',
      comment: 'a domain imports only kernel, database and lower domains',
      severity: 'error',
      from: { path: `^src/(${domains})/`, pathNot: WIRE },
      to: { path: '^src/', pathNot: `^src/(${domains}|kernel|database)/` },
    },
    {
      name: 'wire-files-import-only',
      comment: 'handlers, messages and the gateway connector may also import gen and the types of the api',
      severity: 'error',
      from: { path: `^src/(${domains})/.*(Handlers|Messages)\\.ts$|${gateway}` },
      to: {
        path: '^src/',
        pathNot: `^src/(${domains}|kernel|database|gen)/|^src/api/pipeline/(callContext|handlers)\\.ts$`,
      },
    },
    {
      name: 'config-through-index',
      severity: 'error',
      from: { path: '^src/', pathNot: inside('config') },
      to: { path: inside('config'), pathNot: '^src/config/index\\.ts$' },
    },
    {
      name: 'handlers-import-no-repository',
      severity: 'error',
      from: { path: 'Handlers\\.ts$' },
      to: { path: 'Repository\\.ts$' },
    },
    only(
      'knex-in-repositories',
      'SQL lives in database/ and *Repository.ts',
      '^src/database/|Repository\\.ts$|^src/client/gateway/store/sqlite[^/]*\\.ts$',
      own('(knex|pg|better-sqlite3)'),
    ),
    only(
      'grpc-at-the-edge',
      'grpc-js lives in api/, gen/, the gateway connector, and as a client in client/ and cli/',
      `^src/(api|gen|cli|client)/|${gateway}`,
      own('@grpc/(grpc-js|proto-loader)'),
    ),
    only(
      'quickjs-in-codec',
      'the script engine lives in codec/',
      '^src/codec/',
      own('(quickjs-emscripten-core|@jitl/[^/]+)'),
    ),
    only(
      'addresses-in-one-file',
      'networks are read and compared in one place',
      '^src/access/keys/addresses\\.ts$',
      own('ipaddr\\.js'),
    ),
    only(
      'mqtt-in-connectors',
      'the MQTT client lives in the broker connectors, and in the devices that cli/simulate plays',
      `${brokers}|^src/cli/simulate/`,
      own('(mqtt|mqtt-packet)'),
    ),
    only(
      'ajv-in-connections',
      'JSON Schema is checked in connections/',
      inside('connections'),
      own('(ajv|ajv-formats)'),
    ),
    only(
      'http-in-rest',
      'the HTTP server lives in api/rest/',
      inside('api/rest'),
      own('(fastify|@fastify/[^/]+|range-parser)'),
    ),
    only(
      'media-codecs-in-media',
      'image codecs are used only in media/worker/',
      inside('media/worker'),
      own('(@jsquash/[^/]+|omggif|image-size)'),
    ),
    only(
      'toml-and-json5-in-imports',
      'the files of device repositories are read in profiles/import/',
      inside('profiles/import'),
      own('(smol-toml|json5)'),
    ),
    only(
      'yaml-in-kernel',
      'YAML is read in readYaml, which bounds it; findYamlLine needs a text that readYaml accepted',
      '^src/kernel/(readYaml|findYamlLine|formatYaml)\\.ts$',
      own('yaml'),
    ),
    only(
      'luxon-in-two-modules',
      'telemetry/ knows calendars and time zones; connections/ reads the times of devices',
      '^src/(telemetry|connections)/',
      own('luxon'),
    ),
    only(
      'pino-in-server',
      'other modules use the Logger of the kernel',
      '^src/server/|^src/kernel/logger|^src/cli/log',
      own('pino'),
    ),
    only(
      'server-is-the-root',
      'only the command line starts the server',
      '^src/(main\\.ts|cli/|server/)',
      '^src/server/index\\.ts$',
    ),
    only(
      'server-by-its-index',
      'the parts of the composition root are reached through server/index.ts',
      '^src/server/',
      '^src/server/(?!index\\.ts$)',
    ),
    only(
      'metrics-in-observability',
      'the registry of metrics lives in observability/metrics/; other modules declare what they count',
      inside('observability/metrics'),
      own('prom-client'),
    ),
    only(
      'traces-in-observability',
      'OpenTelemetry lives in observability/traces/',
      inside('observability/traces'),
      own('@opentelemetry/[^/]+'),
    ),
    only(
      'archives-in-backup',
      'the format of backup files is known in backup/',
      inside('backup'),
      own('(tar-stream|age-encryption)'),
    ),
    only('cron-in-one-file', 'schedules are read in one place', '^src/kernel/cronSchedule\\.ts$', own('croner')),
    only('cli-is-the-top', 'no other module imports the command line', '^src/(main\\.ts|cli/)', inside('cli')),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['require', 'node', 'types', 'default'],
      extensions: ['.ts', '.js', '.json'],
    },
  },
};
