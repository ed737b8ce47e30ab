import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { writeAtomically } from '../../kernel/writeAtomically';
import type * as certificates from './certificates';
import type { KeyPair } from './certificates';
import { findText } from './pemFiles';

const lazyCertificates = (): typeof certificates => require('./certificates'); // a hundredth of a second, and needed once a year

const RENEW_BEFORE = 30 * 86_400_000;
const SECRET = 0o600;
const PUBLIC = 0o644;

/** The installation's own certificates in `<data folder>/tls`: a CA that clients trust, and a server certificate that is renewed by itself. */
export class PrivatePki {
  readonly caFile: string;
  private readonly folder: string;

  constructor(
    private readonly options: {
      readonly dataDir: string;
      /** The names and addresses that the certificate is for, asked at each check. */
      readonly names: () => readonly string[];
      readonly clock: Clock;
      readonly log: Logger;
    },
  ) {
    this.folder = join(options.dataDir, 'tls');
    this.caFile = this.file('ca.pem');
  }

  /** The server certificate: the one on disk, or a new one where that ends soon or is for other names. */
  async load(): Promise<KeyPair> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const ca = (await this.readCa()) ?? (await this.createCa());
    const names = [...new Set(this.options.names())];
    const present = await this.readServer();
    const why = present ? whyRenew(present.cert, ca.cert, names, this.options.clock.now()) : 'there was none';
    return present && !why ? present : await this.createServer(ca, names, why ?? '');
  }

  private async readCa(): Promise<KeyPair | undefined> {
    const [cert, key] = await Promise.all([findText(this.caFile), findText(this.file('ca-key.pem'))]);
    if (cert === undefined) return undefined; // the key is written first: one without a certificate was never used
    if (key !== undefined && belongTogether(cert, key)) return { cert, key };
    throw new DomainError('conflict', 'ca_broken', `ca-key.pem in ${this.folder} is missing or not the key of ca.pem; put it back from a backup, or remove both files to start a new CA that every client has to trust anew`);
  }

  private async createCa(): Promise<KeyPair> {
    const ca = await lazyCertificates().makeCa(this.options.clock.now());
    await writeAtomically(this.file('ca-key.pem'), ca.key, SECRET);
    await writeAtomically(this.caFile, ca.cert, PUBLIC);
    this.options.log.info({ ca: this.caFile }, 'tls.ca_created');
    return ca;
  }

  private async readServer(): Promise<KeyPair | undefined> {
    const [cert, key] = await Promise.all([findText(this.file('server.pem')), findText(this.file('server-key.pem'))]);
    return cert !== undefined && key !== undefined && belongTogether(cert, key) ? { cert, key } : undefined;
  }

  private async createServer(ca: KeyPair, names: readonly string[], why: string): Promise<KeyPair> {
    const made = await lazyCertificates().makeServerCertificate(ca, names, this.options.clock.now());
    const server = { cert: made.cert + ca.cert, key: made.key };
    await writeAtomically(this.file('server-key.pem'), server.key, SECRET);
    await writeAtomically(this.file('server.pem'), server.cert, PUBLIC);
    this.options.log.info({ names, why, ends_at: new X509Certificate(made.cert).validToDate.toISOString() }, 'tls.certificate_created');
    return server;
  }

  private file(name: string): string {
    return join(this.folder, name);
  }
}

/** Why the server certificate has to be made anew; undefined while it is good. */
function whyRenew(cert: string, caCert: string, names: readonly string[], now: number): string | undefined {
  const certificate = new X509Certificate(cert);
  const ca = new X509Certificate(caCert);
  if (!certificate.checkIssued(ca) || !certificate.verify(ca.publicKey)) return 'it was not made by the CA';
  const end = certificate.validToDate.getTime();
  if (end - now < RENEW_BEFORE && end < ca.validToDate.getTime()) return 'it ends soon';
  if (certificate.validFromDate.getTime() > now) return 'it is not valid yet';
  const covered = (certificate.subjectAltName ?? '').split(', ').length;
  return covered === names.length && names.every((name) => covers(certificate, name)) ? undefined : 'the names or addresses of the machine changed';
}

function covers(certificate: X509Certificate, name: string): boolean {
  return (isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name, { subject: 'never' })) !== undefined;
}

function belongTogether(cert: string, key: string): boolean {
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch {
    return false; // not PEM at all: neither belongs to the other
  }
}
