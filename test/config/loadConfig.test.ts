import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig, SETTINGS, listSettings, redactPassword } from '../../src/config';
import { DomainError } from '../../src/kernel/errors';

let folder: string;
beforeAll(() => (folder = mkdtempSync(join(tmpdir(), 'plantroom-config-'))));
afterAll(() => rmSync(folder, { recursive: true }));

function file(content: string): string {
  const path = join(folder, 'plantroom.yaml');
  writeFileSync(path, content);
  return path;
}

/** Returns the lines that report an invalid configuration. */
function listErrors(from: Parameters<typeof loadConfig>[0]): string[] {
  try {
    loadConfig(from);
  } catch (error) {
    if (error instanceof DomainError && error.reason === 'configuration_invalid')
      return error.violations.map((v) => v.description.replaceAll(folder, '.'));
    throw error;
  }
  return [];
}

describe('loadConfig', () => {
  it('has a documented default for every setting', () => {
    const { config, sources } = loadConfig({ env: {} });
    expect(config.grpc).toEqual({ listen: '0.0.0.0:50051', reflection: true });
    expect(config.data.dir).toBe(join(process.cwd(), 'data'));
    expect(new Set(Object.values(sources))).toEqual(new Set(['default']));
  });

  it('prefers flags over the environment, the environment over the file, and the file over defaults', () => {
    const path = file(
      'grpc: { listen: 127.0.0.1:1, reflection: false }\nlog: { level: warn }\ntls: { names: [a.example, b.example] }',
    );
    const { config, sources } = loadConfig({
      file: path,
      env: { PLANTROOM_GRPC_LISTEN: '127.0.0.1:2', PLANTROOM_LOG_LEVEL: 'error' },
      flags: { 'grpc.listen': '127.0.0.1:3' },
    });
    expect([config.grpc.listen, config.log.level, config.grpc.reflection, config.tls.names, config.tls.mode]).toEqual([
      '127.0.0.1:3',
      'error',
      false,
      ['a.example', 'b.example'],
      'auto',
    ]);
    expect([sources['grpc.listen'], sources['log.level'], sources['grpc.reflection'], sources['tls.mode']]).toEqual([
      '--grpc-listen',
      'PLANTROOM_LOG_LEVEL',
      `${path}: grpc.reflection`,
      'default',
    ]);
  });

  it('reads every setting from its environment variable, as text', () => {
    const env = {
      PLANTROOM_TLS_NAMES: 'a.example, 10.0.0.1,',
      PLANTROOM_GRPC_REFLECTION: 'false',
      PLANTROOM_LIMITS_MAX_CONCURRENT_STREAMS: '7',
      PLANTROOM_DATABASE_URL: '',
    };
    const { config } = loadConfig({ env });
    expect([config.tls.names, config.grpc.reflection, config.limits.maxConcurrentStreams, config.database.url]).toEqual(
      [['a.example', '10.0.0.1'], false, 7, ''],
    );
    expect(SETTINGS.map((s) => s.variable)).toEqual(
      expect.arrayContaining([
        'PLANTROOM_DATA_DIR',
        'PLANTROOM_TLS_ALLOW_INSECURE_NETWORK',
        'PLANTROOM_BOOTSTRAP_KEY_FILE',
        'PLANTROOM_TLS_CLIENT_CA_FILE',
      ]),
    );
  });

  it('reports all errors of all sources at once, each with its source and the expected value', () => {
    const path = file('grcp: { listen: 1 }\ngrpc: { listn: x, reflection: maybe }\ntls: 3\nlog: { level: [] }');
    const env = {
      PLANTROOM_TLS_MOED: 'off',
      PLANTROOM_LIMITS_SHUTDOWN_TIMEOUT_MS: 'soon',
      PLANTROOM_DATABASE_URL: 'mysql://root:secret@db/x',
      PLANTROOM_TLS_MODE: 'files',
    };
    const lines = listErrors({ file: path, env, flags: { 'grpc.listen': 'nowhere' } });
    expect(lines).toEqual([
      './plantroom.yaml: grcp: unknown section; did you mean grpc?',
      './plantroom.yaml: grpc.listn: unknown setting; did you mean listen?',
      './plantroom.yaml: tls: must contain settings, not 3',
      'PLANTROOM_TLS_MOED: unknown setting; did you mean PLANTROOM_TLS_MODE?',
      '--grpc-listen is "nowhere": must be host:port with a port from 0 to 65535, for example 0.0.0.0:50051 or [::]:50051',
      './plantroom.yaml: grpc.reflection is "maybe": must be true or false',
      'PLANTROOM_DATABASE_URL is wrong: must be empty (SQLite in the data folder) or postgres://user:password@host:port/database',
      './plantroom.yaml: log.level is []: must be one of debug, info, warn, error',
      'PLANTROOM_LIMITS_SHUTDOWN_TIMEOUT_MS is "soon": must be a whole number from 0 to 3600000',
      'tls.certFile is required with tls.mode files: set both PLANTROOM_TLS_CERT_FILE and PLANTROOM_TLS_KEY_FILE',
      'tls.keyFile is required with tls.mode files: set both PLANTROOM_TLS_CERT_FILE and PLANTROOM_TLS_KEY_FILE',
    ]);
    expect(lines.join()).not.toContain('secret');
  });

  it.each([
    [
      'plain text over REST on the network',
      { PLANTROOM_TLS_MODE: 'off', PLANTROOM_GRPC_LISTEN: '127.0.0.1:0' },
      /PLANTROOM_TLS_MODE is off while REST listens on 0\.0\.0\.0:8443/,
    ],
    [
      'plain text on the network',
      { PLANTROOM_TLS_MODE: 'off', PLANTROOM_HTTP_LISTEN: 'off' },
      /PLANTROOM_TLS_MODE is off while gRPC listens on 0\.0\.0\.0:50051/,
    ],
    [
      'an unused certificate',
      { PLANTROOM_TLS_CERT_FILE: '/c.pem' },
      /PLANTROOM_TLS_CERT_FILE has no effect with tls\.mode auto/,
    ],
    [
      'an encoder whose wall-clock limit is below its CPU limit',
      { PLANTROOM_CODEC_TIMEOUT_MS: '900', PLANTROOM_CODEC_HARD_TIMEOUT_MS: '1000' },
      /PLANTROOM_CODEC_HARD_TIMEOUT_MS is 1000: must be at least 1125, because codec\.timeoutMs \(900\)/,
    ],
    [
      'client certificates without TLS',
      {
        PLANTROOM_TLS_MODE: 'off',
        PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
        PLANTROOM_HTTP_LISTEN: 'off',
        PLANTROOM_TLS_CLIENT_CA_FILE: '/c.pem',
      },
      /PLANTROOM_TLS_CLIENT_CA_FILE has no effect/,
    ],
  ])('rejects the combination of %s', (_, env, line) => {
    expect(listErrors({ env })).toEqual([expect.stringMatching(line)]);
  });

  it.each([
    [
      'on loopback',
      { PLANTROOM_TLS_MODE: 'off', PLANTROOM_GRPC_LISTEN: '[::1]:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0' },
    ],
    ['where it is allowed', { PLANTROOM_TLS_MODE: 'off', PLANTROOM_TLS_ALLOW_INSECURE_NETWORK: 'true' }],
  ])('accepts plain text %s', (_, env) => {
    expect(listErrors({ env })).toEqual([]);
  });

  it.each([
    ['an origin with a path', 'CORS_ORIGINS', 'https://console.example/'],
    ['an origin with its default port', 'CORS_ORIGINS', 'https://console.example:443'],
    ['an origin that is not an address', 'CORS_ORIGINS', 'https://a.example, console'],
    ['a proxy by its name', 'TRUSTED_PROXIES', 'proxy.example'],
    ['a network whose prefix is longer than its address', 'TRUSTED_PROXIES', '192.0.2.0/33'],
    ['all addresses as proxies', 'TRUSTED_PROXIES', '10.0.0.1,0.0.0.0/0'],
    ['a link-local address with a zone', 'TRUSTED_PROXIES', 'fe80::1%eth0'],
  ])('rejects %s', (_, name, value) => {
    expect(listErrors({ env: { [`PLANTROOM_HTTP_${name}`]: value } })).toEqual([
      expect.stringContaining(`PLANTROOM_HTTP_${name} is ${JSON.stringify(value)}: must be a list of`),
    ]);
  });

  it('accepts origins as browsers send them, and addresses and networks of proxies', () => {
    const corsOrigins = ['*', 'https://console.example', 'http://localhost:5173', 'http://[::1]:3000', 'app://console'];
    const trustedProxies = ['127.0.0.1', '::1', '10.0.0.0/8', '2001:db8::/32'];
    const { config } = loadConfig({ file: file(`http: ${JSON.stringify({ corsOrigins, trustedProxies })}`), env: {} });
    expect(config.http).toMatchObject({ corsOrigins, trustedProxies });
  });

  it('ignores foreign environment variables', () => {
    expect(
      listErrors({
        env: {
          PATH: '/bin',
          PLANTROOM_API_KEY: 'x',
          PLANTROOM_SERVICE_HOST: '10.0.0.1',
          PLANTROOM_PORT_50051_TCP_ADDR: '10.0.0.1',
          PLANTROOM_SERVICE_PORT_GRPC: '1',
        },
      }),
    ).toEqual([]);
  });

  it('reports in one line a file that is missing or not YAML', () => {
    expect(listErrors({ file: join(folder, 'none.yaml'), env: {} })).toEqual([
      expect.stringMatching(/none\.yaml: cannot be read/),
    ]);
    expect(listErrors({ file: file('grpc: [\n'), env: {} })).toEqual([
      expect.stringMatching(/plantroom\.yaml: is not valid YAML: [^\n]+$/),
    ]);
    for (const deep of ['{a: ', '- ', '? ', '[ #\n'])
      expect(listErrors({ file: file(deep.repeat(5000)), env: {} })).toEqual([
        expect.stringMatching(/plantroom\.yaml: is nested deeper than 64 levels$/),
      ]);
    expect(listErrors({ file: file('- a\n'), env: {} })).toEqual([expect.stringMatching(/must contain sections/)]);
    expect(listErrors({ file: file(''), env: {} })).toEqual([]);
  });

  it('accepts the secrets key in base64 or as a file, and shows it nowhere', () => {
    const key = Buffer.alloc(32, 9).toString('base64');
    const loaded = loadConfig({ file: false, env: { PLANTROOM_SECRETS_KEY: key } });
    expect(loaded.config.secrets).toEqual({ key, keyFile: '' });
    expect(JSON.stringify(listSettings(loaded))).not.toContain(key);
    expect(() => loadConfig({ file: false, env: { PLANTROOM_SECRETS_KEY: 'hush' } })).toThrow(
      'PLANTROOM_SECRETS_KEY is wrong: must be 32 random bytes in base64',
    );
    const strayBits = `${'A'.repeat(42)}B`;
    expect(() => loadConfig({ file: false, env: { PLANTROOM_SECRETS_KEY: strayBits } })).toThrow(
      'must be 32 random bytes',
    );
    expect(() =>
      loadConfig({ file: false, env: { PLANTROOM_SECRETS_KEY: key, PLANTROOM_SECRETS_KEY_FILE: 'x' } }),
    ).toThrow('set either the key or the file');
  });

  it('is deeply frozen', () => {
    const { config } = loadConfig({ env: { PLANTROOM_TLS_NAMES: 'a' } });
    expect(() => Object.assign(config.grpc, { listen: 'x' })).toThrow(TypeError);
    expect(() => (config.tls.names as string[]).push('b')).toThrow(TypeError);
  });
});

describe('listSettings', () => {
  it('hides passwords and names the source of a value', () => {
    const shown = listSettings(
      loadConfig({ env: { PLANTROOM_DATABASE_URL: 'postgres://plant:hush@db:5432/plantroom?sslpassword=hush' } }),
    );
    expect(shown.find((s) => s.setting === 'database.url')).toEqual({
      setting: 'database.url',
      value: 'postgres://plant:***@db:5432/plantroom?sslpassword=***',
      source: 'PLANTROOM_DATABASE_URL',
    });
    expect(redactPassword('')).toBe('');
  });
});
