import 'reflect-metadata';
import { ChannelCredentials, status } from '@grpc/grpc-js';
import { X509CertificateGenerator } from '@peculiar/x509';
import { webcrypto, X509Certificate } from 'node:crypto';
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect as connectPlain } from 'node:net';
import { join } from 'node:path';
import { connect, type PeerCertificate, type TLSSocket } from 'node:tls';
import { systemClock } from '../../src/kernel/clock';
import { HealthClient, HealthCheckResponse_ServingStatus as Serving } from '../../src/gen/grpc/health/v1/health';
import { GrpcServer } from '../../src/api/grpc/grpcServer';
import type { GrpcLimits } from '../../src/api/limits';
import { Services } from '../../src/api/services';
import { createCa, createServerCertificate } from '../../src/api/tls/certificates';
import { ServerTls, type ServerTlsOptions } from '../../src/api/tls/serverTls';
import { call, callFails, FakeAuthenticator, MemoryLog, temporaryFolder } from '../support/edge';

const DAY = 86_400_000;
const NAMES = ['localhost', '127.0.0.1', '::1', 'plantroom.example'];

/** A client certificate that is its own CA. */
async function createClientCertificate(): Promise<{ cert: string; key: string }> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const generated = await X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name: 'CN=client',
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date(Date.now() - DAY),
    notAfter: new Date(Date.now() + DAY),
  });
  const key = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  return { cert: generated.toString('pem'), key: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n` };
}

describe('TLS', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let now: number;
  let names: string[];
  let log: MemoryLog;
  const ends: (() => Promise<void> | void)[] = [];

  beforeEach(async () => {
    folder = await temporaryFolder();
    now = Date.now();
    names = [...NAMES];
    log = new MemoryLog();
  });
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
    await folder.remove();
  });

  const file = (name: string) => join(folder.path, 'tls', name);
  const text = (name: string) => readFile(file(name), 'utf8');
  const leaf = async () => new X509Certificate(await text('server.pem'));

  const getTls = async (overrides: Partial<ServerTlsOptions> = {}): Promise<ServerTls> => {
    const clock = { ...systemClock, now: () => now };
    const tls = new ServerTls({
      mode: 'auto',
      dataDir: folder.path,
      names: [],
      allowInsecureNetwork: false,
      clock,
      log,
      machineNames: () => names,
      ...overrides,
    });
    await tls.start();
    ends.push(() => tls.stop());
    return tls;
  };
  const serve = async (tls: ServerTls, listen = '127.0.0.1:0', limits: Partial<GrpcLimits> = {}): Promise<string> => {
    const services = new Services({
      authenticator: new FakeAuthenticator(),
      log,
      clock: systemClock,
      reflection: false,
    });
    const server = new GrpcServer({ services, tls, limits });
    const { address } = await server.start(listen);
    ends.push(() => services.stop(1000, [server]));
    return address;
  };
  const health = (address: string, credentials: ChannelCredentials): HealthClient['check'] => {
    const client = new HealthClient(address.replace('127.0.0.1', 'localhost'), credentials, {
      'grpc.use_local_subchannel_pool': 1,
    });
    ends.push(() => client.close());
    return client.check.bind(client);
  };
  const shown = async (address: string): Promise<{ certificate: PeerCertificate; socket: TLSSocket }> => {
    const socket = connect({
      host: '127.0.0.1',
      port: Number(address.split(':')[1]),
      ca: await text('ca.pem'),
      ALPNProtocols: ['h2'],
      servername: 'localhost',
    });
    await new Promise<void>((resolve, reject) => (socket.once('secureConnect', resolve), socket.once('error', reject)));
    ends.push(() => void socket.destroy());
    return { certificate: socket.getPeerCertificate(), socket };
  };

  it('creates a CA and a certificate that clients with the CA trust, with keys that only the owner can read', async () => {
    const address = await serve(await getTls());
    const check = health(address, ChannelCredentials.createSsl(Buffer.from(await text('ca.pem'))));
    expect(await call(check, { service: '' }, {})).toEqual({ status: Serving.SERVING });
    for (const name of ['ca-key.pem', 'server-key.pem']) expect((await stat(file(name))).mode & 0o777).toBe(0o600);
    const [ca, certificate] = [new X509Certificate(await text('ca.pem')), await leaf()];
    expect([ca.ca, certificate.ca, certificate.verify(ca.publicKey)]).toEqual([true, false, true]);
    expect(Math.round((certificate.validToDate.getTime() - now) / DAY)).toBe(397);
    expect(Math.round((ca.validToDate.getTime() - now) / DAY)).toBe(3650);
    expect(
      NAMES.map(
        (name) => (/[:]|^\d/.test(name) ? certificate.checkIP(name) : certificate.checkHost(name)) !== undefined,
      ),
    ).toEqual([true, true, true, true]);
  });

  it('is not trusted without the CA, and supports nothing older than TLS 1.2', async () => {
    const address = await serve(await getTls());
    expect(await callFails(health(address, ChannelCredentials.createSsl()), { service: '' }, {})).toMatchObject({
      code: status.UNAVAILABLE,
    });
    const old = connect({
      host: '127.0.0.1',
      port: Number(address.split(':')[1]),
      rejectUnauthorized: false,
      servername: 'localhost',
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    });
    expect(
      await new Promise(
        (resolve) => (old.once('error', () => resolve('refused')), old.once('secureConnect', () => resolve('taken'))),
      ),
    ).toBe('refused');
  });

  it('stops at once and cuts a connection that never finished its handshake', async () => {
    const services = new Services({
      authenticator: new FakeAuthenticator(),
      log,
      clock: systemClock,
      reflection: false,
    });
    const server = new GrpcServer({ services, tls: await getTls() });
    const { address } = await server.start('127.0.0.1:0');
    const silent = connectPlain(Number(address.split(':')[1]), '127.0.0.1');
    const cut = new Promise((resolve) => silent.once('close', resolve));
    await new Promise((resolve) => silent.once('connect', resolve));
    (await shown(address)).socket.destroy(); // the port has accepted the earlier connection by now
    await services.stop(600_000, [server]); // longer than the time limit of the test
    await cut;
  });

  it('closes only connections that do not finish their handshake or send nothing after it', async () => {
    const address = await serve(await getTls(), '127.0.0.1:0', { handshakeMs: 500 });
    const trusting = ChannelCredentials.createSsl(Buffer.from(await text('ca.pem')));
    const client = new HealthClient(address.replace('127.0.0.1', 'localhost'), trusting);
    const watch = client.watch({ service: '' });
    const ended: string[] = [];
    watch.on('error', (error) => ended.push(error.message)).on('end', () => ended.push('end'));
    await new Promise((resolve) => watch.once('data', resolve));
    const silent = connectPlain(Number(address.split(':')[1]), '127.0.0.1');
    const { socket: shaken } = await shown(address);
    for (const socket of [silent, shaken]) socket.on('error', () => {}).resume();
    await Promise.all([silent, shaken].map((socket) => new Promise((resolve) => socket.once('close', resolve))));
    expect(ended).toEqual([]);
    watch.on('error', () => {}).cancel();
    client.close();
  });

  it('keeps its certificates across a restart', async () => {
    await getTls();
    const before = [await text('ca.pem'), await text('server.pem')];
    await getTls();
    expect([await text('ca.pem'), await text('server.pem')]).toEqual(before);
  });

  it('renews the certificate 30 days before it expires, for new connections at once, and keeps the CA', async () => {
    now -= 367.5 * DAY; // so that both certificates are valid for the client, which uses the real clock
    const tls = await getTls();
    const address = await serve(tls);
    const [ca, first] = [await text('ca.pem'), await shown(address)];
    now += 366 * DAY;
    await tls.renewIfNeeded();
    expect((await shown(address)).certificate.serialNumber).toBe(first.certificate.serialNumber);
    now += 2 * DAY;
    await tls.renewIfNeeded();
    expect((await shown(address)).certificate.serialNumber).not.toBe(first.certificate.serialNumber);
    expect((await shown(address)).socket.getProtocol()).toBe('TLSv1.3');
    expect(first.socket.destroyed).toBe(false);
    expect(await text('ca.pem')).toBe(ca);
    expect(log.of('tls.certificate_created').at(-1)).toMatchObject({ why: 'the certificate expires soon' });
  });

  it('creates a new certificate when the names or addresses of the machine change', async () => {
    const tls = await getTls();
    const address = await serve(tls);
    names = ['localhost', '127.0.0.1', '192.0.2.7'];
    await tls.renewIfNeeded();
    expect((await shown(address)).certificate.subjectaltname).toBe(
      'DNS:localhost, IP Address:127.0.0.1, IP Address:192.0.2.7',
    );
  });

  it('creates the certificate again when a crash left only half of it, but never the CA', async () => {
    await getTls();
    await rm(file('server-key.pem'));
    await getTls();
    expect((await leaf()).checkHost('localhost')).toBe('localhost');
    await rm(file('ca-key.pem'));
    await expect(getTls()).rejects.toMatchObject({ reason: 'ca_invalid' });
  });

  it('uses provided files, reloads changed ones, and keeps the old ones when the new ones are broken', async () => {
    const ca = await createCa(now);
    const [one, two] = [await createServerCertificate(ca, NAMES, now), await createServerCertificate(ca, NAMES, now)];
    const [certFile, keyFile] = [join(folder.path, 'cert.pem'), join(folder.path, 'key.pem')];
    const write = async (cert: string, key: string) =>
      void (await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key)]));
    await write(one.cert, one.key);
    const tls = await getTls({ mode: 'files', certFile, keyFile });
    expect(tls.caFile).toBeUndefined();
    await writeFile(file('../ca.pem'), ca.cert);
    const serial = async (address: string) => {
      const socket = connect({
        host: '127.0.0.1',
        port: Number(address.split(':')[1]),
        ca: ca.cert,
        ALPNProtocols: ['h2'],
        servername: 'localhost',
      });
      await new Promise(
        (resolve, reject) => (socket.once('secureConnect', () => resolve(undefined)), socket.once('error', reject)),
      );
      ends.push(() => void socket.destroy());
      return socket.getPeerCertificate().serialNumber.toLowerCase();
    };
    const address = await serve(tls);
    expect(await serial(address)).toBe(new X509Certificate(one.cert).serialNumber.toLowerCase());
    await write(two.cert, one.key);
    await tls.renewIfNeeded();
    expect(log.of('tls.certificate_invalid')).toHaveLength(1);
    expect(await serial(address)).toBe(new X509Certificate(one.cert).serialNumber.toLowerCase());
    await write(two.cert, two.key);
    await tls.renewIfNeeded();
    expect(await serial(address)).toBe(new X509Certificate(two.cert).serialNumber.toLowerCase());
  });

  it('names a missing or unusable file', async () => {
    await expect(
      getTls({ mode: 'files', certFile: join(folder.path, 'nope.pem'), keyFile: 'x' }),
    ).rejects.toMatchObject({ reason: 'certificate_missing', message: expect.stringContaining('nope.pem') });
    await expect(getTls({ mode: 'files' })).rejects.toMatchObject({ reason: 'certificate_missing' });
    await writeFile(join(folder.path, 'bad.pem'), 'no PEM');
    await expect(
      getTls({ mode: 'files', certFile: join(folder.path, 'bad.pem'), keyFile: join(folder.path, 'bad.pem') }),
    ).rejects.toMatchObject({ reason: 'certificate_invalid' });
  });

  it('requires a client certificate when a client CA is configured', async () => {
    const client = await createClientCertificate();
    const clientCaFile = join(folder.path, 'client-ca.pem');
    await writeFile(clientCaFile, client.cert);
    const address = await serve(await getTls({ clientCaFile }));
    const ca = Buffer.from(await text('ca.pem'));
    expect(await callFails(health(address, ChannelCredentials.createSsl(ca)), { service: '' }, {})).toMatchObject({
      code: status.UNAVAILABLE,
    });
    const known = ChannelCredentials.createSsl(ca, Buffer.from(client.key), Buffer.from(client.cert));
    expect(await call(health(address, known), { service: '' }, {})).toEqual({ status: Serving.SERVING });
  });

  it('speaks plain text beyond loopback only when that is allowed', async () => {
    const off = await getTls({ mode: 'off' });
    await expect(serve(off, '0.0.0.0:0')).rejects.toMatchObject({ reason: 'plaintext_refused' });
    const address = await serve(off);
    expect(await call(health(address, ChannelCredentials.createInsecure()), { service: '' }, {})).toEqual({
      status: Serving.SERVING,
    });
    await serve(await getTls({ mode: 'off', allowInsecureNetwork: true }), '0.0.0.0:0');
    await expect(serve(off, address)).rejects.toMatchObject({
      reason: 'listen_failed',
      message: expect.stringContaining('another program'),
    });
  });
});
