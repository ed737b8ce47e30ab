import { request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { text } from 'node:stream/consumers';

/** How to verify the certificate of a server. */
interface Trust {
  /** CA certificates, PEM; undefined: the CAs that Node.js trusts. */
  readonly ca: Buffer | undefined;
  /** False: any certificate is accepted. */
  readonly isChecked: boolean;
}

const TIMEOUT_MS = 3000;

/** Sends GET to a server on this machine; waits at most 3 s. Throws network and TLS errors. */
export async function fetchPage(
  url: string,
  { ca, isChecked }: Trust = { ca: undefined, isChecked: false },
): Promise<{ readonly status: number; readonly body: string }> {
  return await new Promise((resolve, reject) => {
    const options = { timeout: TIMEOUT_MS, agent: false as const, rejectUnauthorized: isChecked, ...(ca && { ca }) };
    const request = (url.startsWith('https:') ? tlsRequest : plainRequest)(
      url,
      options,
      (response) => void text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject),
    );
    request
      .once('timeout', () => request.destroy(new Error(`no response within ${TIMEOUT_MS / 1000} s`)))
      .once('error', reject)
      .end();
  });
}
