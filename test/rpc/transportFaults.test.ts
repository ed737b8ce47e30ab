import { status } from '@grpc/grpc-js';
import { asFault } from '../../src/rpc/grpc/transportFaults';

test.each(['Internal server error', 'Error writing message: write EPIPE'])('a caller that was killed while he was answered (%s) is gone, which is no fault of the server', (details) => {
  expect(asFault({ code: status.INTERNAL, details })).toMatchObject({ kind: 'cancelled' });
});

test('what else goes wrong inside is a fault', () => {
  expect(asFault({ code: status.INTERNAL, details: 'Error serializing response' })).toMatchObject({ kind: 'internal' });
});
