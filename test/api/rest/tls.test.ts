import 'reflect-metadata'; // X.509 requires it to come first
import { X509CertificateGenerator } from '@peculiar/x509';
import { X509Certificate, webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { UserProfileServiceService, type User } from '../../../src/gen/userprofile/user_profile_service';
import { createCa, createServerCertificate } from '../../../src/api/tls/certificates';
import { temporaryFolder } from '../../support/edge';
import { FIELDS, startRestEdge, type RestEdge, type RestEdgeOptions } from './restEdge';

const USER = '/userprofile.UserProfileService/GetPersonalUser';
const DAY = 86_400_000;
const NAMES = ['localhost', '127.0.0.1'];

/** Returns the status of a call, or the connection error. */
const call = async (edge: RestEdge, options: object): Promise<unknown> =>
  await new Promise((resolve) => {
    const { hostname: host, port } = new URL(`https://${edge.address}`);
    const clientRequest = request(
      { host, port, method: 'POST', path: USER, headers: FIELDS, agent: false, ...options },
      (answer) => (answer.resume(), resolve(answer.statusCode)),
    );
    clientRequest.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code)).end();
  });

describe('TLS on the HTTP port', () => {
  const ends: (() => Promise<void> | void)[] = [];
  let folder: string;

  beforeEach(async () => {
    const newFolder = await temporaryFolder();
    folder = newFolder.path;
    ends.push(newFolder.remove);
  });
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  });

  const serve = async (options: RestEdgeOptions): Promise<RestEdge> => {
    const edge = await startRestEdge(
      (server) =>
        server.addService(UserProfileServiceService, {
          getPersonalUser: async () => ({ id: 'u', memberships: [] }) as unknown as User,
        }),
      options,
    );
    ends.push(() => edge.stop());
    return edge;
  };
  const open = async (edge: RestEdge, options: ConnectionOptions): Promise<TLSSocket> => {
    const socket = connect({
      host: '127.0.0.1',
      port: Number(edge.address.split(':').at(-1)),
      servername: 'localhost',
      ...options,
    });
    ends.push(() => void socket.destroy());
    return await new Promise((resolve, reject) =>
      socket.once('secureConnect', () => resolve(socket)).once('error', reject),
    );
  };

  it('speaks HTTP/2 and HTTP/1.1, as the client prefers, to clients that trust its CA', async () => {
    const edge = await serve({ isSecure: true });
    const ca = readFileSync(String(edge.ca));
    const spoken = async (ALPNProtocols: string[]): Promise<unknown> =>
      (await open(edge, { ca, ALPNProtocols })).alpnProtocol;
    expect([await spoken(['h2', 'http/1.1']), await spoken(['http/1.1'])]).toEqual(['h2', 'http/1.1']);
    expect([await call(edge, { ca }), await call(edge, {})]).toEqual([
      200,
      expect.stringMatching(/CERT|SELF_SIGNED|UNABLE/),
    ]);
    await expect(
      open(edge, { ca, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }),
    ).rejects.toThrow(/version|protocol|alert/i);
  });

  it('uses a new certificate for new connections and leaves open ones alone', async () => {
    const ca = await createCa(Date.now());
    const [one, two] = [
      await createServerCertificate(ca, NAMES, Date.now()),
      await createServerCertificate(ca, NAMES, Date.now()),
    ];
    const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const write = async ({ cert, key }: typeof one): Promise<void> =>
      void (await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key)]));
    await write(one);
    const edge = await serve({ isSecure: true, tlsOptions: { mode: 'files', certFile, keyFile } });
    const first = await open(edge, { ca: ca.cert });
    await write(two);
    await edge.tls.renewIfNeeded();
    const second = await open(edge, { ca: ca.cert });
    const serials = [first, second].map((socket) => socket.getPeerCertificate().serialNumber);
    expect(serials).toEqual([one, two].map(({ cert }) => new X509Certificate(cert).serialNumber));
    expect(first.destroyed).toBe(false);
    await rm(keyFile);
    await edge.tls.renewIfNeeded();
    expect(await call(edge, { ca: ca.cert })).toBe(200);
  });

  it('requires a client certificate when a client CA is configured', async () => {
    const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
    const client = await X509CertificateGenerator.createSelfSigned({
      serialNumber: '01',
      name: 'CN=client',
      keys,
      signingAlgorithm: algorithm,
      notBefore: new Date(Date.now() - DAY),
      notAfter: new Date(Date.now() + DAY),
    });
    const cert = client.toString('pem');
    const key = `-----BEGIN PRIVATE KEY-----\n${Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')}\n-----END PRIVATE KEY-----\n`;
    const clientCaFile = join(folder, 'client-ca.pem');
    await writeFile(clientCaFile, cert);
    const edge = await serve({ isSecure: true, tlsOptions: { clientCaFile } });
    const ca = readFileSync(String(edge.ca));
    expect(await call(edge, { ca, cert, key })).toBe(200);
    expect(await call(edge, { ca })).toMatch(/^E/);
    expect(edge.log.of('rpc.request')).toHaveLength(1);
  });

  it('speaks plain text beyond loopback only when that is allowed', async () => {
    await expect(serve({ listen: '0.0.0.0:0' })).rejects.toMatchObject({ reason: 'plaintext_refused' });
    const edge = await serve({
      tlsOptions: { mode: 'off', allowInsecureNetwork: true },
      listen: '0.0.0.0:0',
      isSecure: true,
    });
    expect(edge.address).toMatch(/^0\.0\.0\.0:\d+$/);
  });
});
