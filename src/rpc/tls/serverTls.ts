import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions, type SecureVersion } from 'node:tls';
import { findHostPort, isLoopback } from '../../config';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { KeyPair } from './certificates';
import { machineNames } from './machineNames';
import { PrivatePki } from './privatePki';

/** How the ports of the server are secured. */
export interface ServerTlsOptions {
  /** `auto`: certificates of our own in the data folder; `files`: those that are given; `off`: plain text. */
  readonly mode: 'auto' | 'files' | 'off';
  readonly dataDir: string;
  /** Names and addresses for the certificate beside those of the machine (`auto`). */
  readonly names: readonly string[];
  /** The certificate with its chain, PEM (`files`); empty: not given, here and below. */
  readonly certFile?: string | undefined;
  /** Its private key, PEM (`files`). */
  readonly keyFile?: string | undefined;
  /** Clients must show a certificate of a CA in this file, PEM. Not given: they need none. */
  readonly clientCaFile?: string | undefined;
  /** With `off`: plain text also beyond loopback. */
  readonly allowPlaintextNetwork: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** The names and addresses of the machine; given by tests alone. */
  readonly machineNames?: () => readonly string[];
}

const EVERY_HOUR = 3_600_000;
const EVERY_FEW_SECONDS = 5_000;
const OLDEST: SecureVersion = 'TLSv1.2';

/** The certificate of the server's ports: made or read at start, renewed or read anew while it runs. */
export class ServerTls {
  /** Where the CA is that clients have to trust; undefined unless mode is `auto`. */
  readonly caFile: string | undefined;
  private readonly pki: PrivatePki | undefined;
  private readonly listeners = new Set<() => void>();
  private current: SecureContextOptions | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: ServerTlsOptions) {
    const ofMachine = options.machineNames ?? machineNames;
    this.pki = options.mode === 'auto' ? new PrivatePki({ ...options, names: () => [...ofMachine(), ...options.names] }) : undefined;
    this.caFile = this.pki?.caFile;
  }

  /** Whether the ports speak TLS. */
  get isOn(): boolean {
    return this.options.mode !== 'off';
  }

  /** What a TLS server is made with beside `context()`: whether a client needs a certificate. */
  get serverOptions(): { requestCert: boolean; rejectUnauthorized: boolean } {
    const required = Boolean(this.options.clientCaFile);
    return { requestCert: required, rejectUnauthorized: required };
  }

  /** Makes or reads the certificates, and looks at them again from then on. Throws a DomainError that says what to mend. */
  async start(): Promise<void> {
    if (!this.isOn) return;
    this.current = await this.load();
    this.timer = setInterval(() => void this.check(), this.pki ? EVERY_HOUR : EVERY_FEW_SECONDS).unref();
  }

  /** Renews or reads anew where that is due. On a failure the certificate stays as it is, and the log says why. */
  async check(): Promise<void> {
    try {
      const next = await this.load();
      if (same(next, this.context())) return;
      this.current = next;
      for (const listener of this.listeners) listener();
      this.options.log.info({ mode: this.options.mode }, 'tls.certificate_changed');
    } catch (error) {
      this.options.log.error({ err: error }, 'tls.certificate_unusable');
    }
  }

  /** No more looking. */
  stop(): void {
    clearInterval(this.timer);
  }

  /** Certificate, key and limits for `tls.createServer` and `setSecureContext`. */
  context(): SecureContextOptions {
    if (!this.current) throw new Error('the certificates are not there yet; await start() first');
    return this.current;
  }

  /** When the certificate ends, Unix milliseconds; undefined: there is none. */
  get endsAt(): number | undefined {
    return this.current && new X509Certificate(String(this.current.cert)).validToDate.getTime();
  }

  /** Calls back whenever `context()` has changed. */
  onChange(listener: () => void): void {
    this.listeners.add(listener);
  }

  /** Throws where plain text would leave the machine and nobody said that it may. `listen` is `host:port`. */
  requireAllowed(listen: string): void {
    if (this.isOn || this.options.allowPlaintextNetwork || isLoopback(findHostPort(listen)?.host ?? '')) return;
    throw new DomainError('invalid_argument', 'plaintext_refused', `${listen} would carry keys and commands over the network in plain text; leave PLANTROOM_TLS_MODE on auto, listen on 127.0.0.1, or set PLANTROOM_TLS_ALLOW_PLAINTEXT_NETWORK=true if something in front of the server does TLS`);
  }

  private async load(): Promise<SecureContextOptions> {
    const { clientCaFile } = this.options;
    const pair = this.pki ? await this.pki.load() : await this.readFiles();
    const context = { cert: pair.cert, key: pair.key, minVersion: OLDEST, ...(clientCaFile ? { ca: await read(clientCaFile, 'client CA file') } : {}) };
    try {
      createSecureContext(context);
    } catch (cause) {
      throw new DomainError('invalid_argument', 'certificate_unusable', `the certificate files cannot be used (${(cause as Error).message}); give a PEM certificate with its chain and the PEM key that belongs to it`, { cause });
    }
    return context;
  }

  private async readFiles(): Promise<KeyPair> {
    const { certFile, keyFile } = this.options;
    if (!certFile || !keyFile) throw new DomainError('invalid_argument', 'certificate_missing', 'TLS mode files needs both a certificate file and a key file; set PLANTROOM_TLS_CERT_FILE and PLANTROOM_TLS_KEY_FILE');
    return { cert: await read(certFile, 'certificate file'), key: await read(keyFile, 'key file') };
  }
}

async function read(path: string, what: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new DomainError('invalid_argument', 'certificate_missing', `the ${what} ${path} cannot be read (${(cause as NodeJS.ErrnoException).code ?? 'unknown'}); give a PEM file that this user may read`, { cause });
  }
}

function same(one: SecureContextOptions, other: SecureContextOptions): boolean {
  return one.cert === other.cert && one.key === other.key && one.ca === other.ca;
}
