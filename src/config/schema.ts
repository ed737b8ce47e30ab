import { z } from 'zod';
import { baseUrl, choice, count, databaseUrl, flag, list, listenAddress, networks, origins, schedule, secretKey, text, traceEndpoint } from './fields';

/**
 * Every setting: section, name, default, what it is. A setting's variable is PLANTROOM_<SECTION>_<NAME>, its flag --section-name,
 * its key in plantroom.yaml section.name.
 */
export const configSchema = z.strictObject({
  data: z.strictObject({
    dir: text().min(1, 'must not be empty').default('./data').describe('folder for the database, certificates and run.json'),
  }),
  grpc: z.strictObject({
    listen: listenAddress().default('0.0.0.0:50051').describe('where gRPC is served; port 0 lets the machine choose'),
    reflection: flag().default(true).describe('whether clients with a key may ask which methods there are'),
  }),
  http: z.strictObject({
    listen: listenAddress('off').default('0.0.0.0:8443').describe('where REST is served; port 0 lets the machine choose; off: nowhere'),
    publicUrl: baseUrl().default('').describe('the address at which browsers reach it, for the links to images; empty: https:// and the name of this machine'),
    docs: flag().default(true).describe('whether /docs and /openapi.json are shown, to everybody'),
    corsOrigins: origins().default([]).describe('origins whose pages may call it, for example https://console.example; * for all; empty: none'),
    trustedProxies: networks().default([]).describe('addresses or networks of proxies whose X-Forwarded-* headers are believed; empty: none'),
  }),
  metrics: z.strictObject({
    listen: listenAddress('off').default('127.0.0.1:9464').describe('where /metrics is served for Prometheus, plain HTTP without a key; port 0 lets the machine choose; off: nowhere'),
  }),
  traces: z.strictObject({
    endpoint: traceEndpoint().default('').describe('where traces go by OTLP over HTTP, for example http://localhost:4318/v1/traces; empty: none'),
    samplePercent: count(0, 100).default(100).describe('how many of the calls that begin here are traced, percent'),
  }),
  tls: z.strictObject({
    mode: choice(['auto', 'files', 'off']).default('auto').describe('auto: a private CA in the data folder; files: your own certificate; off: plain text'),
    names: list().default([]).describe('more host names and addresses for the certificate that auto makes'),
    certFile: text().default('').describe('with files: the certificate chain, PEM'),
    keyFile: text().default('').describe('with files: its private key, PEM'),
    clientCaFile: text().default('').describe('when set, clients must show a certificate of this CA, PEM'),
    allowPlaintextNetwork: flag().default(false).describe('with off: allow plain text on more than loopback'),
  }),
  database: z.strictObject({
    url: databaseUrl().default('').describe('empty: SQLite in the data folder; else postgres://...').meta({ secret: true }),
    pool: count(2, 100).default(10).describe('PostgreSQL: the most connections'),
    reserveMib: count(0, 65_536).default(64).describe('space that is kept in the data folder for cleaning up when the disk is full, MiB; 0: none'),
  }),
  secrets: z.strictObject({
    key: secretKey().default('').describe('key that the secret fields of connections are encrypted with: 32 bytes in base64; better by its variable or as a file: flags show in the list of processes').meta({ secret: true }),
    keyFile: text().default('').describe('file with that key; empty: secrets.key in the data folder, made when it is first needed'),
  }),
  backup: z.strictObject({
    schedule: schedule().default('off').describe('when backups are made, as cron writes it, in the time zone of the machine: "30 2 * * *" is daily at 02:30; off: never by itself'),
    dir: text().default('').describe('folder for backups, best on another disk; empty: backups in the data folder'),
    passphraseFile: text().default('').describe('file with the passphrase that backups are encrypted with; empty: not encrypted'),
    keepDaily: count(1, 3660).default(7).describe('of so many last days with backups the newest is kept'),
    keepWeekly: count(0, 520).default(4).describe('the same of weeks'),
    keepMonthly: count(0, 120).default(6).describe('the same of months'),
  }),
  log: z.strictObject({
    level: choice(['debug', 'info', 'warn', 'error']).default('info').describe('the least important lines that are written'),
  }),
  bootstrap: z.strictObject({
    keyFile: text().default('').describe('first start: write {"organizationId", "apiKey"} to this file instead of the terminal'),
  }),
  audit: z.strictObject({
    retentionDays: count(1, 36_500).default(1095).describe('how long events of the audit trail are kept, days'),
  }),
  codec: z.strictObject({
    workers: count(1, 16).default(2).describe('threads that run encoders and decoders'),
    scriptMs: count(10, 60_000).default(250).describe('how long an encoder or decoder may compute, milliseconds'),
    hardMs: count(20, 120_000).default(1000).describe('when one that cannot be stopped is ended together with its thread, milliseconds'),
  }),
  limits: z.strictObject({
    receiveBytes: count(1024, 256 * 1024 * 1024).default(4 * 1024 * 1024).describe('largest message that is taken, bytes'),
    sendBytes: count(1024, 256 * 1024 * 1024).default(16 * 1024 * 1024).describe('largest message that is sent, bytes'),
    metadataBytes: count(1024, 1024 * 1024).default(16 * 1024).describe('largest metadata of a call, bytes'),
    concurrentStreams: count(1, 100_000).default(200).describe('calls at the same time on one network connection'),
    keepaliveMs: count(1000, 86_400_000).default(30_000).describe('silence after which the server pings a client, milliseconds'),
    keepaliveTimeoutMs: count(1000, 3_600_000).default(10_000).describe('how long it waits for the answer, milliseconds'),
    resetBurst: count(1, 100_000).default(400).describe('calls that a client may open and reset at once before it is cut off'),
    resetsPerSecond: count(1, 100_000).default(50).describe('how many of them it is given back each second'),
    stopMs: count(0, 3_600_000).default(10_000).describe('how long a stop waits for calls in flight, milliseconds'),
  }),
  rates: z.strictObject({
    failedPerMinute: count(0, 1_000_000).default(30).describe('calls without a good key that are told why, per minute, of one address (IPv6: one /64) and of one key; as many at once; the others only that there are too many; 0: all'),
    callsPerKeyPerSecond: count(0, 1_000_000).default(0).describe('calls and openings of streams that one key may make per second; 0: any number'),
    callsPerPeerPerSecond: count(0, 1_000_000).default(0).describe('the same that may come from one address (IPv6: one /64); 0: any number'),
    burstSeconds: count(1, 3600).default(2).describe("how many seconds' worth of these calls may come at once"),
  }),
});

/** The configuration: one frozen value; folders and files are absolute paths. */
export type Config = DeepReadonly<z.infer<typeof configSchema>>;

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** One setting as the schema describes it. */
export interface Setting {
  readonly section: string;
  readonly name: string;
  /** `tls.certFile`, the key in plantroom.yaml. */
  readonly path: string;
  /** `PLANTROOM_TLS_CERT_FILE`. */
  readonly variable: string;
  /** `--tls-cert-file`. */
  readonly flag: string;
  readonly description: string;
  /** May hold a password: shown without it. */
  readonly secret: boolean;
  readonly schema: z.ZodType;
}

const kebab = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** Every setting, in the order of the schema. */
export const SETTINGS: readonly Setting[] = Object.entries(configSchema.shape).flatMap(([section, { shape }]) =>
  Object.entries(shape).map(([name, schema]: [string, z.ZodType]): Setting => {
    const flagName = `${section}-${kebab(name)}`;
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
