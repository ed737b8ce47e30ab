import { findHostPort, hostPortText, isLoopback } from './listen';
import type { Config } from './schema';

/** What settings ask of each other. A mistake is reported on the first setting, and only if none of them is wrong by itself. */
export interface ConfigRule {
  readonly settings: readonly [string, ...string[]];
  readonly holds: (config: Config) => boolean;
  /** What is wrong and what would be right. */
  readonly mistake: (config: Config) => string;
}

const needed = (): string => 'is missing: tls.mode files needs the certificate and its key (PLANTROOM_TLS_CERT_FILE, PLANTROOM_TLS_KEY_FILE)';
const useless = ({ tls }: Config): string => `has no effect with tls.mode ${tls.mode}: leave it out, or change tls.mode`;

/** Whether both cannot listen: on the same port of the same address. Port 0 is another one for each. */
function collide(one: string, other: string): boolean {
  const [a, b] = [findHostPort(one), findHostPort(other)];
  if (!a || !b || a.port === 0 || a.port !== b.port) return false;
  return a.host === b.host || covers(a.host, b.host) || covers(b.host, a.host);
}

function covers(host: string, other: string): boolean {
  return host === '::' || (host === '0.0.0.0' && !other.includes(':')) || (host === 'localhost' && isLoopback(other));
}

function twoPorts(section: 'http' | 'metrics', other: 'grpc' | 'http', next: number): ConfigRule {
  return {
    settings: [`${section}.listen`, `${other}.listen`],
    holds: (config) => !collide(config[section].listen, config[other].listen),
    mistake: (config) => `is ${config[section].listen}, and ${other}.listen is ${config[other].listen}: each needs a port of its own; set PLANTROOM_${section.toUpperCase()}_LISTEN=${hostPortText({ host: findHostPort(config[section].listen)?.host ?? '', port: next })}`,
  };
}

/** All of them. */
export const CONFIG_RULES: readonly ConfigRule[] = [
  { settings: ['tls.certFile', 'tls.mode'], holds: ({ tls }) => tls.mode !== 'files' || tls.certFile !== '', mistake: needed },
  { settings: ['tls.keyFile', 'tls.mode'], holds: ({ tls }) => tls.mode !== 'files' || tls.keyFile !== '', mistake: needed },
  { settings: ['tls.certFile', 'tls.mode'], holds: ({ tls }) => tls.mode === 'files' || tls.certFile === '', mistake: useless },
  { settings: ['tls.keyFile', 'tls.mode'], holds: ({ tls }) => tls.mode === 'files' || tls.keyFile === '', mistake: useless },
  { settings: ['tls.names', 'tls.mode'], holds: ({ tls }) => tls.mode === 'auto' || tls.names.length === 0, mistake: useless },
  { settings: ['tls.clientCaFile', 'tls.mode'], holds: ({ tls }) => tls.mode !== 'off' || tls.clientCaFile === '', mistake: useless },
  {
    settings: ['secrets.key', 'secrets.keyFile'],
    holds: ({ secrets }) => secrets.key === '' || secrets.keyFile === '',
    mistake: () => 'is given beside secrets.keyFile: give the key itself or the file that holds it, not both',
  },
  {
    settings: ['codec.hardMs', 'codec.scriptMs'],
    holds: ({ codec }) => codec.scriptMs <= 0.8 * codec.hardMs,
    mistake: ({ codec }) => `is ${codec.hardMs}: must be at least ${Math.ceil(codec.scriptMs / 0.8)}: codec.scriptMs (${codec.scriptMs}), after which a script is stopped without its thread, is at most 80 % of it`,
  },
  twoPorts('http', 'grpc', 8443),
  twoPorts('metrics', 'grpc', 9464),
  twoPorts('metrics', 'http', 9464),
  {
    settings: ['tls.mode', 'http.listen'],
    holds: ({ tls, http }) => tls.mode !== 'off' || tls.allowPlaintextNetwork || http.listen === 'off' || isLoopback(findHostPort(http.listen)?.host ?? ''),
    mistake: ({ http }) =>
      `is off while REST listens on ${http.listen}: plain text is for loopback only; set PLANTROOM_HTTP_LISTEN=127.0.0.1:8443, or allow it with PLANTROOM_TLS_ALLOW_PLAINTEXT_NETWORK=true`,
  },
  {
    settings: ['tls.mode', 'grpc.listen'],
    holds: ({ tls, grpc }) => tls.mode !== 'off' || tls.allowPlaintextNetwork || isLoopback(findHostPort(grpc.listen)?.host ?? ''),
    mistake: ({ grpc }) =>
      `is off while gRPC listens on ${grpc.listen}: plain text is for loopback only; set PLANTROOM_GRPC_LISTEN=127.0.0.1:50051, or allow it with PLANTROOM_TLS_ALLOW_PLAINTEXT_NETWORK=true`,
  },
];
