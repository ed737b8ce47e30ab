import { parseHostPort, formatHostPort, isLoopback } from './hostPort';
import type { Config } from './schema';

/**
 * A rule between several settings. Its error is reported on the first setting, and only if each setting is valid alone.
 */
interface ConfigRule {
  readonly settings: readonly [string, ...string[]];
  readonly isSatisfied: (config: Config) => boolean;
  /** Returns what is wrong and how to fix it. */
  readonly describeError: (config: Config) => string;
}

/** The error of a missing certificate or key file. */
const describeMissingFile = (): string =>
  'is required with tls.mode files: set both PLANTROOM_TLS_CERT_FILE and PLANTROOM_TLS_KEY_FILE';
/** The error of a setting that the TLS mode ignores. */
const describeUnusedSetting = ({ tls }: Config): string =>
  `has no effect with tls.mode ${tls.mode}: remove it, or change tls.mode`;

/** Whether two listen addresses use the same port of the same address. Port 0 never collides. */
function hasPortCollision(firstAddress: string, secondAddress: string): boolean {
  const first = parseHostPort(firstAddress);
  const second = parseHostPort(secondAddress);
  if (!first || !second || first.port === 0 || first.port !== second.port) return false;
  return first.host === second.host || coversHost(first.host, second.host) || coversHost(second.host, first.host);
}

/**
 * Whether listening on `host` also occupies the port of `other`: `0.0.0.0` is every IPv4 address, `::` every address.
 */
function coversHost(host: string, other: string): boolean {
  return host === '::' || (host === '0.0.0.0' && !other.includes(':')) || (host === 'localhost' && isLoopback(other));
}

/** Creates the rule that two listeners do not use the same port. `suggestedPort`: a free port for the message. */
function createPortRule(section: 'http' | 'metrics', other: 'grpc' | 'http', suggestedPort: number): ConfigRule {
  return {
    settings: [`${section}.listen`, `${other}.listen`],
    isSatisfied: (config) => !hasPortCollision(config[section].listen, config[other].listen),
    describeError: (config) => {
      const { listen } = config[section];
      const suggestion = formatHostPort({ host: parseHostPort(listen)?.host ?? '', port: suggestedPort });
      return `is ${listen}, and ${other}.listen is ${config[other].listen}: each needs its own port; set PLANTROOM_${section.toUpperCase()}_LISTEN=${suggestion}`;
    },
  };
}

/** The maximum of codec.timeoutMs as a fraction of codec.hardTimeoutMs. */
const MAX_TIMEOUT_FRACTION = 0.8;

/** All rules between settings. */
export const CONFIG_RULES: readonly ConfigRule[] = [
  {
    settings: ['tls.certFile', 'tls.mode'],
    isSatisfied: ({ tls }) => tls.mode !== 'files' || tls.certFile !== '',
    describeError: describeMissingFile,
  },
  {
    settings: ['tls.keyFile', 'tls.mode'],
    isSatisfied: ({ tls }) => tls.mode !== 'files' || tls.keyFile !== '',
    describeError: describeMissingFile,
  },
  {
    settings: ['tls.certFile', 'tls.mode'],
    isSatisfied: ({ tls }) => tls.mode === 'files' || tls.certFile === '',
    describeError: describeUnusedSetting,
  },
  {
    settings: ['tls.keyFile', 'tls.mode'],
    isSatisfied: ({ tls }) => tls.mode === 'files' || tls.keyFile === '',
    describeError: describeUnusedSetting,
  },
  {
    settings: ['tls.names', 'tls.mode'],
    isSatisfied: ({ tls }) => tls.mode === 'auto' || tls.names.length === 0,
    describeError: describeUnusedSetting,
  },
  {
    settings: ['tls.clientCaFile', 'tls.mode'],
    isSatisfied: ({ tls }) => tls.mode !== 'off' || tls.clientCaFile === '',
    describeError: describeUnusedSetting,
  },
  {
    settings: ['secrets.key', 'secrets.keyFile'],
    isSatisfied: ({ secrets }) => secrets.key === '' || secrets.keyFile === '',
    describeError: () => 'cannot be combined with secrets.keyFile: set either the key or the file that holds it',
  },
  {
    settings: ['codec.hardTimeoutMs', 'codec.timeoutMs'],
    isSatisfied: ({ codec }) => codec.timeoutMs <= MAX_TIMEOUT_FRACTION * codec.hardTimeoutMs,
    describeError: ({ codec }) =>
      `is ${codec.hardTimeoutMs}: must be at least ${Math.ceil(codec.timeoutMs / MAX_TIMEOUT_FRACTION)}, because codec.timeoutMs (${codec.timeoutMs}) must be at most 80 % of it`,
  },
  createPortRule('http', 'grpc', 8443),
  createPortRule('metrics', 'grpc', 9464),
  createPortRule('metrics', 'http', 9464),
  {
    settings: ['tls.mode', 'http.listen'],
    isSatisfied: ({ tls, http }) =>
      tls.mode !== 'off' ||
      tls.allowInsecureNetwork ||
      http.listen === 'off' ||
      isLoopback(parseHostPort(http.listen)?.host ?? ''),
    describeError: ({ http }) =>
      `is off while REST listens on ${http.listen}: plain text is allowed on loopback only; set PLANTROOM_HTTP_LISTEN=127.0.0.1:8443, or allow it with PLANTROOM_TLS_ALLOW_INSECURE_NETWORK=true`,
  },
  {
    settings: ['tls.mode', 'grpc.listen'],
    isSatisfied: ({ tls, grpc }) =>
      tls.mode !== 'off' || tls.allowInsecureNetwork || isLoopback(parseHostPort(grpc.listen)?.host ?? ''),
    describeError: ({ grpc }) =>
      `is off while gRPC listens on ${grpc.listen}: plain text is allowed on loopback only; set PLANTROOM_GRPC_LISTEN=127.0.0.1:50051, or allow it with PLANTROOM_TLS_ALLOW_INSECURE_NETWORK=true`,
  },
];
