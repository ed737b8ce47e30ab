import 'reflect-metadata'; // x509 requires that this is loaded first
import * as x509 from '@peculiar/x509';
import { webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import { DAY_MS } from '../../kernel/timeUnits';

/** A certificate and its private key, both as PEM text. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

const CA_NOT_BEFORE_MS = Date.UTC(2020, 0, 1);
const CA_DAYS = 3650;
const LEAF_DAYS = 397; // the maximum that current clients accept
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
x509.cryptoProvider.set(webcrypto);

/** Creates a certificate authority that is valid for 10 years. `now` is in Unix milliseconds. */
export async function createCa(now: number): Promise<KeyPair> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: generateSerialNumber(),
    name: 'CN=Plantroom private CA',
    notBefore: new Date(CA_NOT_BEFORE_MS), // in the past, so that the CA stays valid if the clock was ahead at creation
    notAfter: new Date(now + CA_DAYS * DAY_MS),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true), // a CA that issues no further CAs; critical
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { cert: `${certificate.toString('pem')}\n`, key: await exportPem(keys.privateKey) };
}

/**
 * Creates a server certificate for DNS names and IP addresses. It is valid for 397 days, but not longer than its CA.
 * `now` is in Unix milliseconds.
 */
export async function createServerCertificate(ca: KeyPair, names: readonly string[], now: number): Promise<KeyPair> {
  const issuer = new x509.X509Certificate(ca.cert);
  const signingKey = await webcrypto.subtle.importKey(
    'pkcs8',
    x509.PemConverter.decodeFirst(ca.key),
    ALGORITHM,
    false,
    ['sign'],
  );
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: generateSerialNumber(),
    subject: 'CN=plantroom',
    issuer: issuer.subject,
    notBefore: new Date(now - DAY_MS), // in the past, so that clients whose clock is behind accept it
    notAfter: new Date(Math.min(now + LEAF_DAYS * DAY_MS, issuer.notAfter.getTime())),
    signingKey,
    publicKey: keys.publicKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true), // not a CA; critical
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: isIP(value) ? 'ip' : 'dns', value }))),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return { cert: `${certificate.toString('pem')}\n`, key: await exportPem(keys.privateKey) };
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

/** Returns the private key as PEM text (PKCS #8): base64 in lines of 64 characters between two markers. */
async function exportPem(key: webcrypto.CryptoKey): Promise<string> {
  const base64 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64');
  return `-----BEGIN PRIVATE KEY-----\n${base64.replace(/.{1,64}/g, '$&\n')}-----END PRIVATE KEY-----\n`;
}

/**
 * Generates a random serial number in hex: 128 bits, positive, without a leading zero byte, as X.509 requires. The
 * first bit is 0, which means positive, and the second bit is 1, so the first byte is not 0.
 */
function generateSerialNumber(): string {
  const bytes = Buffer.from(webcrypto.getRandomValues(new Uint8Array(16)));
  bytes[0] = ((bytes[0] as number) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
