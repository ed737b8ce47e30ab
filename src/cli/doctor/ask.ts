import { request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { text } from 'node:stream/consumers';

/** How the certificate of a server is checked. */
export interface Trust {
  /** PEM; undefined: the CAs that the system trusts. */
  readonly ca: Buffer | undefined;
  /** False: what it shows is taken. */
  readonly isChecked: boolean;
}

const WAIT_MS = 3000;

/** GETs a page of a server of this machine. Throws the errors of the network and of TLS. */
export async function ask(url: string, { ca, isChecked }: Trust = { ca: undefined, isChecked: false }): Promise<{ readonly status: number; readonly body: string }> {
  return await new Promise((resolve, reject) => {
    const options = { timeout: WAIT_MS, agent: false as const, rejectUnauthorized: isChecked, ...(ca && { ca }) };
    const asked = (url.startsWith('https:') ? tlsRequest : plainRequest)(url, options, (answer) => void text(answer).then((body) => resolve({ status: answer.statusCode ?? 0, body }), reject));
    asked.once('timeout', () => asked.destroy(new Error(`nothing came for ${WAIT_MS / 1000} s`))).once('error', reject).end();
  });
}

/** Whether a server asked for a certificate of the client: only one that is there does. */
export function asksForCertificate(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED';
}
