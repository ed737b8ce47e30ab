import { z } from 'zod';
import {
  baseUrl,
  choice,
  wholeNumber,
  databaseUrl,
  flag,
  list,
  listenAddress,
  networks,
  origins,
  schedule,
  secretKey,
  text,
  traceEndpoint,
} from './fields';

/**
 * Every setting with its default and description. A setting `section.name` in plantroom.yaml has the variable
 * PLANTROOM_<SECTION>_<NAME> and the flag --section-name.
 */
export const configSchema = z.strictObject({
  data: z.strictObject({
    dir: text()
      .min(1, 'must not be empty')
      .default('./data')
      .describe('Folder for the database, certificates and run.json'),
  }),
  grpc: z.strictObject({
    listen: listenAddress().default('0.0.0.0:50051').describe('Listen address of gRPC; port 0 selects a free port'),
    reflection: flag().default(true).describe('Enable gRPC server reflection (requires an API key)'),
  }),
  http: z.strictObject({
    listen: listenAddress('off')
      .default('0.0.0.0:8443')
      .describe('Listen address of REST; port 0 selects a free port; off: disabled'),
    publicUrl: baseUrl()
      .default('')
      .describe('Public base URL of the REST API, for links to images; empty: https:// and the name of this machine'),
    docsEnabled: flag().default(true).describe('Serve /docs, /openapi.json and /openapi-grpc.json without an API key'),
    corsOrigins: origins()
      .default([])
      .describe(
        'Origins of web pages that may call the REST API, for example https://console.example; * allows all; empty: none',
      ),
    trustedProxies: networks()
      .default([])
      .describe(
        'IP addresses or networks of trusted reverse proxies (their X-Forwarded-* headers are used); empty: none',
      ),
  }),
  metrics: z.strictObject({
    listen: listenAddress('off')
      .default('127.0.0.1:9464')
      .describe(
        'Listen address of /metrics for Prometheus (plain HTTP without an API key); port 0 selects a free port; off: disabled',
      ),
  }),
  traces: z.strictObject({
    endpoint: traceEndpoint()
      .default('')
      .describe('OTLP/HTTP endpoint for traces, for example http://localhost:4318/v1/traces; empty: no traces'),
    samplePercent: wholeNumber(0, 100)
      .default(100)
      .describe('Percentage of calls to trace, if the caller did not start the trace'),
  }),
  tls: z.strictObject({
    mode: choice(['auto', 'files', 'off'])
      .default('auto')
      .describe('auto: private CA in the data folder; files: your own certificate; off: plain text'),
    names: list()
      .default([])
      .describe('Additional host names and IP addresses for the certificate that mode auto creates'),
    certFile: text().default('').describe('Certificate chain for mode files, PEM'),
    keyFile: text().default('').describe('Private key for mode files, PEM'),
    clientCaFile: text()
      .default('')
      .describe('CA certificate, PEM; if set, clients must present a certificate signed by it'),
    allowInsecureNetwork: flag().default(false).describe('Allow plain text beyond loopback (with mode off)'),
  }),
  database: z.strictObject({
    url: databaseUrl()
      .default('')
      .describe('PostgreSQL URL (postgres://...); empty: SQLite in the data folder')
      .meta({ secret: true }),
    poolSize: wholeNumber(2, 100).default(10).describe('Maximum number of PostgreSQL connections'),
    leaseMs: wholeNumber(1000, 300_000)
      .default(10_000)
      .describe(
        'Lease of the PostgreSQL database in ms: another server can take over when the owner is silent for this time',
      ),
    diskReserveMib: wholeNumber(0, 65_536)
      .default(64)
      .describe('Disk space in MiB to reserve in the data folder for cleaning up when the disk is full; 0: none'),
  }),
  secrets: z.strictObject({
    key: secretKey()
      .default('')
      .describe(
        'Key that encrypts the secret fields of connections: 32 bytes in base64. Use the variable or a key file: flags are visible in the process list',
      )
      .meta({ secret: true }),
    keyFile: text()
      .default('')
      .describe('File with the secrets key; empty: secrets.key in the data folder, created when first needed'),
  }),
  backup: z.strictObject({
    schedule: schedule()
      .default('off')
      .describe(
        'Backup schedule as a cron expression in the local time zone: "30 2 * * *" is daily at 02:30; off: no scheduled backups',
      ),
    dir: text()
      .default('')
      .describe('Folder for backups, preferably on another disk; empty: backups in the data folder'),
    passphraseFile: text().default('').describe('File with the passphrase that encrypts backups; empty: not encrypted'),
    keepDaily: wholeNumber(1, 3660).default(7).describe('Number of daily backups to keep'),
    keepWeekly: wholeNumber(0, 520).default(4).describe('Number of weekly backups to keep'),
    keepMonthly: wholeNumber(0, 120).default(6).describe('Number of monthly backups to keep'),
  }),
  log: z.strictObject({
    level: choice(['debug', 'info', 'warn', 'error']).default('info').describe('Log level: debug, info, warn or error'),
    format: choice(['auto', 'console', 'json'])
      .default('auto')
      .describe('Format of log lines: console is for people, json for machines, auto is console on a terminal'),
    access: choice(['off', 'errors', 'all'])
      .default('errors')
      .describe('Requests that are logged at level info: none, failed ones, or all; the others are logged at debug'),
  }),
  bootstrap: z.strictObject({
    keyFile: text()
      .default('')
      .describe('First start: write {"organizationId", "apiKey"} to this file instead of the terminal'),
  }),
  audit: z.strictObject({
    retentionDays: wholeNumber(1, 36_500).default(1095).describe('Retention of audit events, in days'),
  }),
  codec: z.strictObject({
    workers: wholeNumber(1, 16).default(2).describe('Number of worker threads that run encoders and decoders'),
    timeoutMs: wholeNumber(10, 60_000).default(250).describe('Time limit of an encoder or decoder, in ms'),
    hardTimeoutMs: wholeNumber(20, 120_000)
      .default(1000)
      .describe('Hard limit in ms: after this time the worker thread that runs the script is terminated'),
  }),
  limits: z.strictObject({
    maxReceiveMessageBytes: wholeNumber(1024, 256 * 1024 * 1024)
      .default(4 * 1024 * 1024)
      .describe('Maximum size of an incoming message, in bytes'),
    maxSendMessageBytes: wholeNumber(1024, 256 * 1024 * 1024)
      .default(16 * 1024 * 1024)
      .describe('Maximum size of an outgoing message, in bytes'),
    maxMetadataBytes: wholeNumber(1024, 1024 * 1024)
      .default(16 * 1024)
      .describe('Maximum size of the metadata of a call, in bytes'),
    maxConcurrentStreams: wholeNumber(1, 100_000)
      .default(200)
      .describe('Maximum number of concurrent calls per network connection'),
    keepaliveMs: wholeNumber(1000, 86_400_000)
      .default(30_000)
      .describe('Idle time in ms after which the server pings a client'),
    keepaliveTimeoutMs: wholeNumber(1000, 3_600_000)
      .default(10_000)
      .describe('Time in ms to wait for the response to a ping'),
    rstStreamBurst: wholeNumber(1, 100_000)
      .default(200)
      .describe('Number of calls that a client may open and reset in one burst before it is disconnected'),
    rstStreamsPerSecond: wholeNumber(1, 100_000)
      .default(50)
      .describe('Number of resets per second by which that burst is refilled'),
    shutdownTimeoutMs: wholeNumber(0, 3_600_000)
      .default(10_000)
      .describe('Time in ms that a shutdown waits for calls in progress'),
  }),
  rateLimit: z.strictObject({
    failuresPerMinute: wholeNumber(0, 1_000_000)
      .default(30)
      .describe(
        'Failed authentication attempts that get a detailed error, per minute, per IP address (IPv6: per /64) and per key; 0: unlimited',
      ),
    requestsPerKeyPerSecond: wholeNumber(0, 1_000_000)
      .default(0)
      .describe('Maximum number of calls and new streams per second and key; 0: unlimited'),
    requestsPerAddressPerSecond: wholeNumber(0, 1_000_000)
      .default(0)
      .describe('Maximum number of calls and new streams per second and IP address (IPv6: per /64); 0: unlimited'),
    burstSeconds: wholeNumber(1, 3600).default(2).describe('Size of a burst of calls, in seconds of the allowed rate'),
  }),
});

/** The loaded configuration. It is frozen; folders and files are absolute paths. */
export type Config = DeepReadonly<z.infer<typeof configSchema>>;

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** One setting of the schema. */
export interface Setting {
  readonly section: string;
  readonly name: string;
  /** The key in plantroom.yaml, for example `tls.certFile`. */
  readonly path: string;
  /** The environment variable, for example `PLANTROOM_TLS_CERT_FILE`. */
  readonly variable: string;
  /** The command-line flag, for example `--tls-cert-file`. */
  readonly flag: string;
  readonly description: string;
  /** Whether the value may hold a password and must be hidden. */
  readonly secret: boolean;
  readonly schema: z.ZodType;
}

const toKebabCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** All settings, in the order of the schema. */
export const SETTINGS: readonly Setting[] = Object.entries(configSchema.shape).flatMap(([section, { shape }]) =>
  Object.entries(shape).map(([name, schema]: [string, z.ZodType]): Setting => {
    const flagName = `${toKebabCase(section)}-${toKebabCase(name)}`;
    return {
      section,
      name,
      path: `${section}.${name}`,
      variable: `PLANTROOM_${flagName.replaceAll('-', '_').toUpperCase()}`,
      flag: `--${flagName}`,
      description: schema.meta()?.description ?? '',
      secret: schema.meta()?.['secret'] === true,
      schema,
    };
  }),
);
