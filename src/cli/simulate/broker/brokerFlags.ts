import { readFileSync } from 'node:fs';
import { UsageError } from '../../exit';

/** The broker flags of a simulation. */
export interface BrokerFlags {
  readonly broker: string;
  readonly user?: string;
  readonly password?: string;
  readonly ca?: string;
  readonly cert?: string;
  readonly certKey?: string;
}

/** A broker and the credentials for it; certificates as PEM text. */
export interface BrokerTarget {
  readonly url: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly ca: string | undefined;
  readonly certificate: string | undefined;
  readonly privateKey: string | undefined;
}

const SCHEMES = ['mqtt:', 'mqtts:', 'ws:', 'wss:'];

/** Reads the flags and their files. The password may also come from PLANTROOM_SIMULATE_PASSWORD. Throws UsageError. */
export function getBrokerTarget(flags: BrokerFlags): BrokerTarget {
  const scheme = URL.canParse(flags.broker) ? new URL(flags.broker).protocol : '';
  if (!SCHEMES.includes(scheme))
    throw new UsageError(
      `--broker ${JSON.stringify(flags.broker)} must be a URL that starts with mqtt://, mqtts://, ws:// or wss://, for example mqtt://localhost:1883`,
    );
  if ((flags.cert === undefined) !== (flags.certKey === undefined))
    throw new UsageError('--cert and --cert-key must be used together');
  return {
    url: flags.broker,
    username: flags.user,
    password: flags.password ?? process.env['PLANTROOM_SIMULATE_PASSWORD'],
    ca: readPem(flags.ca, '--ca'),
    certificate: readPem(flags.cert, '--cert'),
    privateKey: readPem(flags.certKey, '--cert-key'),
  };
}

function readPem(file: string | undefined, option: string): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(
      `${option} ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}): set the path of a readable file`,
      { cause: error },
    );
  }
}
