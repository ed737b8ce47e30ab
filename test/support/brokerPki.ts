import 'reflect-metadata'; // x509 requires it to be loaded first
import * as x509 from '@peculiar/x509';
import { webcrypto } from 'node:crypto';

/** A certificate and its private key, both as PEM text. */
export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
}

const DAY = 86_400_000;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
x509.cryptoProvider.set(webcrypto);

/** A certificate authority that issues certificates for brokers and for their clients. */
export class TestCa {
  private constructor(
    private readonly certificate: x509.X509Certificate,
    private readonly keys: webcrypto.CryptoKeyPair,
  ) {}

  static async create(name = 'Test CA'): Promise<TestCa> {
    const keys = await newKeys();
    const now = Date.now();
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber: '01',
      name: `CN=${name}`,
      notBefore: new Date(now - 30 * DAY),
      notAfter: new Date(now + 30 * DAY),
      keys,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    return new TestCa(certificate, keys);
  }

  /** The certificate of the authority as PEM text. */
  get cert(): string {
    return `${this.certificate.toString('pem')}\n`;
  }

  /** Issues a certificate for a broker on this machine, or for another name. `endsAt` is in Unix milliseconds. */
  async forServer(name = 'localhost', endsAt = Date.now() + DAY): Promise<TestCertificate> {
    return await this.issue(`CN=${name}`, endsAt, [
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: name }]),
    ]);
  }

  /** Issues a certificate for a client. */
  async forClient(name = 'plantroom', endsAt = Date.now() + DAY): Promise<TestCertificate> {
    return await this.issue(`CN=${name}`, endsAt, [
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
    ]);
  }

  private async issue(
    subject: string,
    endsAt: number,
    extensions: readonly x509.Extension[],
  ): Promise<TestCertificate> {
    const keys = await newKeys();
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: Buffer.from(webcrypto.getRandomValues(new Uint8Array(8))).toString('hex'),
      subject,
      issuer: this.certificate.subject,
      notBefore: new Date(Math.min(Date.now(), endsAt) - DAY),
      notAfter: new Date(endsAt),
      signingKey: this.keys.privateKey,
      publicKey: keys.publicKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        ...extensions,
        await x509.AuthorityKeyIdentifierExtension.create(this.certificate),
      ],
    });
    const base64 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
    return {
      cert: `${certificate.toString('pem')}\n`,
      key: `-----BEGIN PRIVATE KEY-----\n${base64.replace(/.{1,64}/g, '$&\n')}-----END PRIVATE KEY-----\n`,
    };
  }
}

async function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}
