import 'reflect-metadata'; // x509 wants it to be there first
import * as x509 from '@peculiar/x509';
import { webcrypto } from 'node:crypto';
import { isIP } from 'node:net';

/** A certificate and its private key, both as PEM text. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

const VALID_FROM = Date.UTC(2020, 0, 1);
const DAY = 86_400_000;
const CA_DAYS = 3650;
const LEAF_DAYS = 397; // the longest that clients of today accept
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
x509.cryptoProvider.set(webcrypto);

/** A new certificate authority of this installation, for 10 years. `now` in Unix milliseconds. */
export async function makeCa(now: number): Promise<KeyPair> {
  const keys = await newKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: 'CN=Plantroom private CA',
    notBefore: new Date(VALID_FROM), // made by a clock that is ahead, it is good when that is set
    notAfter: new Date(now + CA_DAYS * DAY),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { cert: `${certificate.toString('pem')}\n`, key: await pemOf(keys.privateKey) };
}

/** A new server certificate for these names and addresses, for 397 days and no longer than its CA. */
export async function makeServerCertificate(ca: KeyPair, names: readonly string[], now: number): Promise<KeyPair> {
  const issuer = new x509.X509Certificate(ca.cert);
  const signingKey = await webcrypto.subtle.importKey('pkcs8', x509.PemConverter.decodeFirst(ca.key), ALGORITHM, false, ['sign']);
  const keys = await newKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: newSerial(),
    subject: 'CN=plantroom',
    issuer: issuer.subject,
    notBefore: new Date(now - DAY),
    notAfter: new Date(Math.min(now + LEAF_DAYS * DAY, issuer.notAfter.getTime())),
    signingKey,
    publicKey: keys.publicKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: isIP(value) ? 'ip' : 'dns', value }))),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return { cert: `${certificate.toString('pem')}\n`, key: await pemOf(keys.privateKey) };
}

async function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const base64 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64');
  return `-----BEGIN PRIVATE KEY-----\n${base64.replace(/.{1,64}/g, '$&\n')}-----END PRIVATE KEY-----\n`;
}

// 128 bits, positive, never with a leading zero byte.
function newSerial(): string {
  const bytes = Buffer.from(webcrypto.getRandomValues(new Uint8Array(16)));
  bytes[0] = ((bytes[0] as number) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
