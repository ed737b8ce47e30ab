import type { FastifyReply, FastifyRequest } from 'fastify';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';

/** A stream of answers as it goes out. */
export interface StreamAnswer {
  /** Writes one answer; resolves when the next may follow. */
  send(json: string, response: unknown): Promise<void>;
  /** The end, in peace. */
  end(): void;
  /** The end, with an error as its last record. */
  fail(error: string): void;
  /** Nothing more is waited for. */
  abort(reason: Error): void;
}

/** Opens it in the form that the caller accepts. */
export function openStream(_request: FastifyRequest, reply: FastifyReply): StreamAnswer {
  const out = new PassThrough();
  void reply.code(200).header('content-type', 'application/x-ndjson').header('cache-control', 'no-store').send(out);
  return {
    send: async (json) => {
      if (!out.write(`${json}\n`)) await once(out, 'drain');
    },
    end: () => out.end(),
    fail: (error) => out.end(`${error}\n`),
    abort: () => {},
  };
}
