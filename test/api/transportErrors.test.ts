import { status } from '@grpc/grpc-js';
import { toTransportError } from '../../src/api/grpc/transportErrors';

test.each(['Internal server error', 'Error writing message: write EPIPE'])(
  'treats a caller that was killed during the response (%s) as disconnected, not as an internal error',
  (details) => {
    expect(toTransportError({ code: status.INTERNAL, details })).toMatchObject({ kind: 'cancelled' });
  },
);

test('treats other transport errors as internal errors', () => {
  expect(toTransportError({ code: status.INTERNAL, details: 'Error serializing response' })).toMatchObject({
    kind: 'internal',
  });
});
