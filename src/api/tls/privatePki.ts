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
import { readFileIfExists } from './pemFiles';

// Loaded on first use, because it takes 10 ms and is needed only about once a year.
const loadCertificates = (): typeof certificates => require('./certificates');

const RENEW_BEFORE_MS = 30 * 86_400_000;
const PRIVATE_FILE_MODE = 0o600;
const PUBLIC_FILE_MODE = 0o644;

/**
 * The installation's own certificates in `<data folder>/tls`: a CA that clients trust, and a server certificate that is
 * renewed automatically.
 */
export class PrivatePki {
  readonly caFile: string;
  private readonly folder: string;

  constructor(
    private readonly options: {
      readonly dataDir: string;
      /** Returns the names and addresses for the certificate; called at each check. */
      readonly listNames: () => readonly string[];
      readonly clock: Clock;
      readonly log: Logger;
    },
  ) {
    this.folder = join(options.dataDir, 'tls');
    this.caFile = this.getPath('ca.pem');
  }

  /**
   * Returns the server certificate from the disk. Creates a new one if it is missing, expires within 30 days, or does
   * not match the CA or the names. Throws ca_invalid.
   */
  async loadOrRenew(): Promise<KeyPair> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const ca = (await this.readCa()) ?? (await this.createCa());
    const names = [...new Set(this.options.listNames())];
    const existing = await this.readServerPair();
    const reason = existing
      ? findRenewalReason(existing.cert, ca.cert, names, this.options.clock.now())
      : 'no certificate existed';
    return existing && !reason ? existing : await this.createServerPair(ca, names, reason ?? '');
  }

  /**
   * Returns the CA from the disk; undefined if it was never created. Throws ca_invalid if the key is missing or does
   * not match.
   */
  private async readCa(): Promise<KeyPair | undefined> {
    const [cert, key] = await Promise.all([
      readFileIfExists(this.caFile),
      readFileIfExists(this.getPath('ca-key.pem')),
    ]);
    if (cert === undefined) return undefined; // the key is written first, so a key without a certificate was never used
    if (key !== undefined && isMatchingPair(cert, key)) return { cert, key };
    throw new DomainError(
      'conflict',
      'ca_invalid',
      `ca-key.pem in ${this.folder} is missing or is not the key of ca.pem: restore it from a backup, or delete both files to create a new CA, which every client must then trust`,
    );
  }

  /** Creates the CA and stores it. The key is written first, so that a certificate never exists without its key. */
  private async createCa(): Promise<KeyPair> {
    const ca = await loadCertificates().createCa(this.options.clock.now());
    await writeAtomically(this.getPath('ca-key.pem'), ca.key, PRIVATE_FILE_MODE);
    await writeAtomically(this.caFile, ca.cert, PUBLIC_FILE_MODE);
    this.options.log.info({ ca: this.caFile }, 'tls.ca_created');
    return ca;
  }

  /**
   * Returns the server certificate from the disk; undefined if it is missing, or the key does not match because a write
   * was interrupted.
   */
  private async readServerPair(): Promise<KeyPair | undefined> {
    const [cert, key] = await Promise.all([
      readFileIfExists(this.getPath('server.pem')),
      readFileIfExists(this.getPath('server-key.pem')),
    ]);
    return cert !== undefined && key !== undefined && isMatchingPair(cert, key) ? { cert, key } : undefined;
  }

  /** Creates the server certificate and stores it with the CA certificate as its chain. `reason` is logged. */
  private async createServerPair(ca: KeyPair, names: readonly string[], reason: string): Promise<KeyPair> {
    const created = await loadCertificates().createServerCertificate(ca, names, this.options.clock.now());
    const server = { cert: created.cert + ca.cert, key: created.key };
    await writeAtomically(this.getPath('server-key.pem'), server.key, PRIVATE_FILE_MODE);
    await writeAtomically(this.getPath('server.pem'), server.cert, PUBLIC_FILE_MODE);
    this.options.log.info(
      { names, why: reason, ends_at: new X509Certificate(created.cert).validToDate.toISOString() },
      'tls.certificate_created',
    );
    return server;
  }

  private getPath(name: string): string {
    return join(this.folder, name);
  }
}

/**
 * Returns the reason why the server certificate must be renewed; undefined if it is valid. `now` in Unix milliseconds.
 * A certificate that expires together with its CA is not renewed before, because a new one could not be valid for
 * longer.
 */
function findRenewalReason(cert: string, caCert: string, names: readonly string[], now: number): string | undefined {
  const certificate = new X509Certificate(cert);
  const ca = new X509Certificate(caCert);
  if (!certificate.checkIssued(ca) || !certificate.verify(ca.publicKey))
    return 'the certificate was not issued by the CA';
  const notAfter = certificate.validToDate.getTime();
  if (notAfter - now < RENEW_BEFORE_MS && notAfter < ca.validToDate.getTime()) return 'the certificate expires soon';
  if (certificate.validFromDate.getTime() > now) return 'the certificate is not valid yet';
  // The same number of names, all valid: so there is no other name either.
  const nameCount = (certificate.subjectAltName ?? '').split(', ').length;
  return nameCount === names.length && names.every((name) => isValidFor(certificate, name))
    ? undefined
    : 'the names or addresses of the machine have changed';
}

/** Whether the certificate contains the name or IP address. The common name, which clients ignore, does not count. */
function isValidFor(certificate: X509Certificate, name: string): boolean {
  return (isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name, { subject: 'never' })) !== undefined;
}

/** Whether the private key belongs to the certificate. */
function isMatchingPair(cert: string, key: string): boolean {
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch {
    return false; // one of the files is not valid PEM
  }
}
