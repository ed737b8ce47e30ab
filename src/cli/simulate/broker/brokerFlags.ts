import { readFileSync } from 'node:fs';
import { UsageError } from '../../exit';

/** Which broker a simulation uses, as the command line says it. */
export interface BrokerFlags {
  readonly broker: string;
  readonly user?: string;
  readonly password?: string;
  readonly ca?: string;
  readonly cert?: string;
  readonly certKey?: string;
}

/** A broker and how to sign in to it; certificates as PEM text. */
export interface BrokerTarget {
  readonly url: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly ca: string | undefined;
  readonly certificate: string | undefined;
  readonly privateKey: string | undefined;
}

const SCHEMES = ['mqtt:', 'mqtts:', 'ws:', 'wss:'];

/** Reads the flags and the files that they name. The password may also come from PLANTROOM_SIMULATE_PASSWORD. Throws UsageError. */
export function brokerTargetOf(flags: BrokerFlags, env: NodeJS.ProcessEnv = process.env): BrokerTarget {
  const scheme = URL.canParse(flags.broker) ? new URL(flags.broker).protocol : '';
  if (!SCHEMES.includes(scheme)) throw new UsageError(`--broker ${JSON.stringify(flags.broker)} must be a URL that begins with mqtt://, mqtts://, ws:// or wss://, for example mqtt://localhost:1883`);
  if ((flags.cert === undefined) !== (flags.certKey === undefined)) throw new UsageError('give --cert and --cert-key together');
  return {
    url: flags.broker,
    username: flags.user,
    password: flags.password ?? env['PLANTROOM_SIMULATE_PASSWORD'],
    ca: pem(flags.ca, '--ca'),
    certificate: pem(flags.cert, '--cert'),
    privateKey: pem(flags.certKey, '--cert-key'),
  };
}

function pem(file: string | undefined, option: string): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`${option} ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}); give the path of a readable file`, { cause: error });
  }
}
