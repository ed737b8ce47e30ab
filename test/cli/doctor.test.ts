import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkCertificates } from '../../src/cli/doctor/certificateChecks';
import type { Finding } from '../../src/cli/doctor/check';
import { checkDatabase } from '../../src/cli/doctor/databaseChecks';
import { checkDataFolder } from '../../src/cli/doctor/folderChecks';
import { checkSecretsKey } from '../../src/cli/doctor/secretChecks';
import { checkServer } from '../../src/cli/doctor/serverChecks';
import { loadConfig, type Config } from '../../src/config';
import { SecretCipher, SecretKey } from '../../src/connections';
import { lockDataFolder } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { createCa, createServerCertificate } from '../../src/api/tls/certificates';
import { engines } from '../support/engines';

const DAY = 86_400_000;

function getConfig(flags: Readonly<Record<string, string>>): Config {
  return loadConfig({ file: false, env: {}, flags }).config;
}

const states = (findings: readonly Finding[]): string[] =>
  findings.map((finding) => `${finding.check}: ${finding.state}`);

describe.each(engines())('doctor on $name', ({ name, createDatabase }) => {
  it('reports no problem for a valid database', async () => {
    const testDatabase = await createDatabase();
    try {
      const findings = await checkDatabase(
        getConfig({ 'data.dir': testDatabase.dataDir, 'database.url': testDatabase.url }),
      );
      expect(states(findings)).toEqual([
        'database: ok',
        'schema: ok',
        ...(name === 'sqlite' ? ['integrity: ok'] : [expect.stringMatching(/^pg_trgm: /), 'database clock: ok']),
      ]);
      expect(JSON.stringify(findings)).not.toMatch(/:[^:@/"]+@/); // No finding contains a password.
    } finally {
      await testDatabase.drop();
    }
  });
});

describe.each(engines())('doctor and secrets on $name', ({ createDatabase }) => {
  it('finds a key that cannot decrypt the stored secrets, and names their owners', async () => {
    const testDatabase = await createDatabase();
    const file = join(testDatabase.dataDir, 'secrets.key');
    const check = async (flags: Readonly<Record<string, string>> = {}): Promise<Finding[]> =>
      await checkSecretsKey(
        getConfig({ 'data.dir': testDatabase.dataDir, 'database.url': testDatabase.url, ...flags }),
      );
    try {
      const { knex } = testDatabase.database.db;
      await knex('organizations').insert({ id: 'o', name: 'o', name_folded: 'o', created_at: 1, updated_at: 1 });
      const seal = (): string =>
        new SecretCipher(
          new SecretKey({ key: '', keyFile: '', dataDir: testDatabase.dataDir, log: silentLogger }),
        ).encrypt(['connection'], 'a password');
      const row = {
        organization_id: 'o',
        connector_id: 'mqtt',
        description: '',
        enabled: 1,
        configuration: '{}',
        policy: '{}',
        revision: 1,
        created_at: 1,
        updated_at: 1,
      };
      await knex('connections').insert([
        { ...row, id: 'a', name: 'Broker', name_folded: 'broker', secrets: JSON.stringify({ password: seal() }) },
        { ...row, id: 'b', name: 'Other', name_folded: 'other', secrets: '' },
      ]);
      expect(await check()).toMatchObject([{ state: 'ok' }]);
      const key = readFileSync(file, 'utf8');
      rmSync(file);
      const expectedFindings = [
        {
          check: 'secrets key',
          state: 'fail',
          found: expect.stringMatching(/cannot decrypt the secrets of the connections "Broker"$/),
          fix: expect.stringContaining('put back the key file'),
        },
      ];
      expect(await check()).toEqual(expectedFindings);
      expect(await check({ 'secrets.key': Buffer.alloc(32, 6).toString('base64') })).toEqual(expectedFindings);
      expect(await check({ 'secrets.key': key.trim() })).toMatchObject([{ state: 'ok' }]);
      writeFileSync(file, Buffer.alloc(32, 6).toString('base64'), { mode: 0o600 });
      expect(await check()).toEqual(expectedFindings);
      writeFileSync(`${file}.next`, key, { mode: 0o600 });
      expect(await check()).toMatchObject([
        { state: 'warn', fix: expect.stringContaining('secrets rotate') as string },
      ]);
    } finally {
      await testDatabase.drop();
    }
  });
});

describe('doctor', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-doctor-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('finds a file that is not a database', async () => {
    writeFileSync(join(folder, 'plantroom.db'), 'not a database at all'.repeat(100));
    expect(await checkDatabase(getConfig({ 'data.dir': folder }))).toEqual([
      { check: 'database', state: 'fail', found: expect.any(String), fix: expect.stringContaining('restore') },
    ]);
  });

  it('finds a PostgreSQL server that does not respond, and prints no password', async () => {
    const [finding] = await checkDatabase(
      getConfig({ 'data.dir': folder, 'database.url': 'postgres://plant:hush@127.0.0.1:1/plantroom' }),
    );
    expect(finding).toMatchObject({ state: 'fail', fix: expect.stringContaining('plant:***@127.0.0.1:1') });
    expect(JSON.stringify(finding)).not.toContain('hush');
  });

  it('finds the server that uses the data folder, and changes nothing there', async () => {
    const config = getConfig({ 'data.dir': folder, 'grpc.listen': '127.0.0.1:0', 'http.listen': '127.0.0.1:0' });
    const lock = await lockDataFolder(folder);
    const held = contents();
    expect((await checkServer(config))[0]).toMatchObject({
      check: 'server',
      state: 'ok',
      found: expect.stringContaining(`process ${process.pid}`),
    });
    expect(contents()).toEqual(held);
    lock.release();
    writeFileSync(join(folder, 'server.pid'), JSON.stringify({ pid: 1, since: 'before a power cut' }));
    const left = contents();
    expect((await checkServer(config))[0]).toMatchObject({
      check: 'server',
      state: 'warn',
      found: 'stopped: no server uses the data folder',
    });
    expect(contents()).toEqual(left);
  });

  it('finds a port that is in use', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const findings = await checkServer(
      getConfig({ 'data.dir': folder, 'grpc.listen': `127.0.0.1:${port}`, 'http.listen': 'off' }),
    );
    other.close();
    expect(findings.at(1)).toMatchObject({
      check: 'gRPC port',
      state: 'fail',
      fix: expect.stringContaining(`PLANTROOM_GRPC_LISTEN=127.0.0.1:${port + 1}`),
    });
  });

  it('finds a data folder that cannot be created, and one with open permissions', () => {
    writeFileSync(join(folder, 'file'), '');
    mkdirSync(join(folder, 'open'), { mode: 0o755 });
    expect(states(checkDataFolder(getConfig({ 'data.dir': join(folder, 'open') })))).toEqual([
      'data folder: ok',
      'data folder rights: warn',
      expect.stringContaining('disk space'),
    ]);
    expect(states(checkDataFolder(getConfig({ 'data.dir': join(folder, 'file', 'data') })))).toEqual([
      'data folder: fail',
    ]);
    symlinkSync(join(folder, 'gone'), join(folder, 'link'));
    expect(states(checkDataFolder(getConfig({ 'data.dir': join(folder, 'link') })))).toEqual(['data folder: fail']);
  });

  it.each([
    ['lasts', Date.now(), ['certificate: ok', 'certificate key: ok']],
    ['expires soon', Date.now() - 380 * DAY, ['certificate: warn', 'certificate key: ok']],
    ['has expired', Date.now() - 400 * DAY, ['certificate: fail']],
    ['is not valid yet', Date.now() + 5 * DAY, ['certificate: fail']],
  ])('checks a certificate that %s', async (_, madeAt, expected) => {
    const certificate = await createServerCertificate(await createCa(madeAt), ['site.example'], madeAt);
    expect(states(checkCertificates(files(certificate.cert, certificate.key)))).toEqual(expected);
  });

  it('finds a private key that does not match the certificate, is readable by all, or is missing', async () => {
    const ca = await createCa(Date.now());
    const [one, other] = [
      await createServerCertificate(ca, ['a.example'], Date.now()),
      await createServerCertificate(ca, ['b.example'], Date.now()),
    ];
    expect(states(checkCertificates(files(one.cert, other.key)))).toEqual(['certificate: ok', 'certificate key: fail']);
    expect(states(checkCertificates(files(one.cert, one.key, 0o644)))).toEqual([
      'certificate: ok',
      'certificate key: warn',
    ]);
    expect(states(checkCertificates(files(one.cert, 'no key')))).toEqual(['certificate: ok', 'certificate key: fail']);
    expect(states(checkCertificates(files('no certificate', one.key)))).toEqual(['certificate: fail']);
  });

  it('finds a secrets key that is missing, corrupt or readable by others', async () => {
    const file = join(folder, 'secrets.key');
    const check = async (flags: Readonly<Record<string, string>> = {}): Promise<string[]> =>
      states(await checkSecretsKey(getConfig({ 'data.dir': folder, ...flags })));
    expect(await check()).toEqual(['secrets key: ok']);
    expect(await check({ 'secrets.keyFile': file })).toEqual(['secrets key: fail']);
    writeFileSync(file, 'key', { mode: 0o600 });
    expect(await check()).toEqual(['secrets key: fail']);
    writeFileSync(file, `${Buffer.alloc(32, 5).toString('base64')}\n`);
    expect(await check()).toEqual(['secrets key: ok']);
    chmodSync(file, 0o640);
    expect(await check()).toEqual(['secrets key: warn']);
    chmodSync(file, 0o644);
    expect(await check()).toEqual(['secrets key: warn']);
    expect(await check({ 'secrets.key': Buffer.alloc(32, 6).toString('base64') })).toEqual(['secrets key: ok']);
  });

  it('warns about connections without TLS', () => {
    expect(
      states(
        checkCertificates(
          getConfig({
            'data.dir': folder,
            'tls.mode': 'off',
            'grpc.listen': '127.0.0.1:0',
            'http.listen': '127.0.0.1:0',
          }),
        ),
      ),
    ).toEqual(['TLS: warn']);
  });

  function contents(): [string, string][] {
    return readdirSync(folder)
      .toSorted()
      .map((name) => [name, readFileSync(join(folder, name), 'utf8')]);
  }

  function files(cert: string, key: string, mode = 0o600): Config {
    const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    rmSync(keyFile, { force: true });
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key, { mode });
    return getConfig({ 'data.dir': folder, 'tls.mode': 'files', 'tls.certFile': certFile, 'tls.keyFile': keyFile });
  }
});
