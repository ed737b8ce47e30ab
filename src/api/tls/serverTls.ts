import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions, type SecureVersion } from 'node:tls';
import { parseHostPort, isLoopback } from '../../config';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { KeyPair } from './certificates';
import { listMachineNames } from './machineNames';
import { PrivatePki } from './privatePki';

/** Settings and dependencies of ServerTls. */
export interface ServerTlsOptions {
  /** `auto`: automatic certificates in the data folder; `files`: the configured files; `off`: no TLS. */
  readonly mode: 'auto' | 'files' | 'off';
  readonly dataDir: string;
  /** Additional names and addresses for the certificate (`auto`). */
  readonly names: readonly string[];
  /** The PEM file with the certificate and its chain (`files`). Here and below, an empty path counts as unset. */
  readonly certFile?: string | undefined;
  /** The PEM file with the private key (`files`). */
  readonly keyFile?: string | undefined;
  /** A PEM file with CAs. If set, clients must present a certificate of one of them. */
  readonly clientCaFile?: string | undefined;
  /** With `off`: allow connections without TLS on addresses other than loopback. */
  readonly allowInsecureNetwork: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** Returns the names and addresses of the machine; only tests set it. */
  readonly machineNames?: () => readonly string[];
}

const RENEWAL_CHECK_INTERVAL_MS = 3_600_000;
const FILE_CHECK_INTERVAL_MS = 5_000;
const MIN_TLS_VERSION: SecureVersion = 'TLSv1.2';

/** The certificate of the server's ports. It is created or read at the start, and renewed or reloaded while running. */
export class ServerTls {
  /** The file with the CA certificate that clients must trust; undefined unless the mode is `auto`. */
  readonly caFile: string | undefined;
  private readonly pki: PrivatePki | undefined;
  private readonly listeners = new Set<() => void>();
  private currentContext: SecureContextOptions | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: ServerTlsOptions) {
    const listNames = options.machineNames ?? listMachineNames;
    this.pki =
      options.mode === 'auto'
        ? new PrivatePki({ ...options, listNames: () => [...listNames(), ...options.names] })
        : undefined;
    this.caFile = this.pki?.caFile;
  }

  /** Whether the ports use TLS. */
  get isOn(): boolean {
    return this.options.mode !== 'off';
  }

  /** The options for a TLS server in addition to `getContext()`: whether clients must present a certificate. */
  get serverOptions(): { requestCert: boolean; rejectUnauthorized: boolean } {
    const isClientCertRequired = Boolean(this.options.clientCaFile);
    return { requestCert: isClientCertRequired, rejectUnauthorized: isClientCertRequired };
  }

  /**
   * Creates or reads the certificates and starts periodic checks of them. Throws a DomainError that explains how to fix
   * the problem.
   */
  async start(): Promise<void> {
    if (!this.isOn) return;
    this.currentContext = await this.loadContext();
    this.timer = setInterval(
      () => void this.renewIfNeeded(),
      this.pki ? RENEWAL_CHECK_INTERVAL_MS : FILE_CHECK_INTERVAL_MS,
    ).unref();
  }

  /**
   * Loads the certificate again: creates a new one if it expires soon or no longer matches (`auto`), or reads the
   * files, which somebody may have replaced (`files`). If it changed, the ports use the new certificate for new
   * connections. On an error, the current certificate stays in use and the error is logged.
   */
  async renewIfNeeded(): Promise<void> {
    try {
      const newContext = await this.loadContext();
      if (isSameContext(newContext, this.getContext())) return;
      this.currentContext = newContext;
      for (const listener of this.listeners) listener();
      this.options.log.info({ mode: this.options.mode }, 'tls.certificate_changed');
    } catch (error) {
      this.options.log.error({ err: error }, 'tls.certificate_invalid');
    }
  }

  /** Stops the periodic checks. */
  stop(): void {
    clearInterval(this.timer);
  }

  /** Returns the certificate, key and TLS settings for `tls.createServer` and `setSecureContext`. */
  getContext(): SecureContextOptions {
    if (!this.currentContext) throw new Error('bug: getContext was called before start() had completed');
    return this.currentContext;
  }

  /** The expiry time of the certificate, Unix milliseconds; undefined without TLS. */
  get notAfter(): number | undefined {
    return this.currentContext && new X509Certificate(String(this.currentContext.cert)).validToDate.getTime();
  }

  /** Calls `listener` whenever the result of `getContext()` changes. */
  onChange(listener: () => void): void {
    this.listeners.add(listener);
  }

  /**
   * Throws plaintext_refused if the port would accept connections from the network without TLS and this is not allowed.
   * `listen` is `host:port`.
   */
  assertMayListen(listen: string): void {
    if (this.isOn || this.options.allowInsecureNetwork || isLoopback(parseHostPort(listen)?.host ?? '')) return;
    throw new DomainError(
      'invalid_argument',
      'plaintext_refused',
      `listening on ${listen} without TLS would send API keys and commands unencrypted over the network: set PLANTROOM_TLS_MODE=auto, listen on 127.0.0.1, or set PLANTROOM_TLS_ALLOW_INSECURE_NETWORK=true if a proxy in front of the server provides TLS`,
    );
  }

  /**
   * Returns the certificate, key and TLS settings from the disk. Throws certificate_missing, certificate_invalid,
   * ca_invalid.
   */
  private async loadContext(): Promise<SecureContextOptions> {
    const { clientCaFile } = this.options;
    const pair = this.pki ? await this.pki.loadOrRenew() : await this.readFiles();
    const context = {
      cert: pair.cert,
      key: pair.key,
      minVersion: MIN_TLS_VERSION,
      ...(clientCaFile ? { ca: await readPemFile(clientCaFile, 'client CA file') } : {}),
    };
    try {
      createSecureContext(context);
    } catch (cause) {
      throw new DomainError(
        'invalid_argument',
        'certificate_invalid',
        `the certificate files are invalid (${(cause as Error).message}): use a PEM certificate with its chain and its PEM private key`,
        { cause },
      );
    }
    return context;
  }

  /** Reads the configured certificate files. Throws certificate_missing. */
  private async readFiles(): Promise<KeyPair> {
    const { certFile, keyFile } = this.options;
    if (!certFile || !keyFile)
      throw new DomainError(
        'invalid_argument',
        'certificate_missing',
        'the TLS mode "files" requires a certificate file and a key file: set PLANTROOM_TLS_CERT_FILE and PLANTROOM_TLS_KEY_FILE',
      );
    return { cert: await readPemFile(certFile, 'certificate file'), key: await readPemFile(keyFile, 'key file') };
  }
}

/** Reads a PEM file. `description` names the file in the error. Throws certificate_missing. */
async function readPemFile(path: string, description: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new DomainError(
      'invalid_argument',
      'certificate_missing',
      `the ${description} ${path} cannot be read (${(cause as NodeJS.ErrnoException).code ?? 'unknown'}): use a PEM file that this user can read`,
      { cause },
    );
  }
}

/** Whether both contexts have the same certificate, key and client CAs. */
function isSameContext(first: SecureContextOptions, second: SecureContextOptions): boolean {
  return first.cert === second.cert && first.key === second.key && first.ca === second.ca;
}
