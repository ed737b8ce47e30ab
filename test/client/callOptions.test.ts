import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import { createPlantroomClient, isPlantroomError } from '../../src/client';

const right = { address: 'localhost:50051', apiKey: 'plr_secret', organizationId: 'org-1', insecure: true } as const;
const [pem = ''] = rootCertificates;

/** Returns the rejected fields with their error messages. */
function listViolations(options: object): Record<string, string> {
  try {
    createPlantroomClient({ ...right, ...options }).close();
  } catch (error) {
    if (!isPlantroomError(error, 'options_invalid')) throw error;
    expect(error.status).toBe('INVALID_ARGUMENT');
    expect(`${error.message}${error.stack}${JSON.stringify(error)}`).not.toContain('plr_secret');
    return Object.fromEntries(error.violations.map(({ field, description }) => [field, description]));
  }
  return {};
}

describe('client options', () => {
  test.each<[string, object, string, RegExp]>([
    ['no address', { address: undefined }, 'address', /host:port/],
    ['a URL', { address: 'https://plantroom.local:50051' }, 'address', /without a scheme/],
    ['an address without a port', { address: 'plantroom.local' }, 'address', /host:port/],
    ['an invalid port', { address: 'plantroom.local:70000' }, 'address', /host:port/],
    ['an IPv6 address without brackets', { address: '::1:50051' }, 'address', /\[::1\]:50051/],
    ['no key', { apiKey: '' }, 'apiKey', /is required/],
    ['a key read from a file with its line break', { apiKey: 'plr_secret\n' }, 'apiKey', /line break/],
    ['no organization', { organizationId: undefined }, 'organizationId', /is required/],
    ['an organization with spaces', { organizationId: 'My Company' }, 'organizationId', /white space/],
    ['the name of a CA file', { insecure: false, ca: 'ca.pem' }, 'ca', /readFileSync\('ca.pem'\)/],
    [
      'a broken CA',
      { insecure: false, ca: pem.replace(/[A-Z]{2}/g, 'A!') },
      'ca',
      /readFileSync|without a valid certificate/,
    ],
    ['a truncated CA', { insecure: false, ca: pem.slice(0, 200) }, 'ca', /without a valid certificate/],
    ['a CA without TLS', { ca: pem }, 'insecure', /cannot be combined with ca/],
    ['a time of zero', { deadlineMs: 0 }, 'deadlineMs', /whole number of milliseconds/],
    ['a time longer than a timer supports', { deadlineMs: Infinity }, 'deadlineMs', /2147483647/],
    ['too many attempts', { retry: { attempts: 6 } }, 'retry.attempts', /1 .* to 5/],
    ['a fractional number of attempts', { retry: { attempts: 1.5 } }, 'retry.attempts', /whole/],
    ['a first pause of zero', { retry: { firstPauseMs: 0 } }, 'retry.firstPauseMs', /1 or more/],
    ['a pause that is not a number', { retry: { longestPauseMs: Number.NaN } }, 'retry.longestPauseMs', /1 or more/],
    ['a CA that is neither text nor bytes', { insecure: false, ca: 5 }, 'ca', /readFileSync\('ca.pem'\)/],
    ['a string instead of a boolean that would turn TLS off', { insecure: 'false' }, 'insecure', /must be a boolean/],
    ['invalid retries', { retry: null }, 'retry', /attempts, firstPauseMs/],
    ['a misspelt option', { deadlinems: 5 }, 'deadlinems', /is not an option: use address.*deadlineMs/],
    ['a misspelt retry option', { retry: { attempt: 2 } }, 'retry.attempt', /is not an option: use attempts/],
  ])('reject %s', (_, options, field, description) => {
    const found = listViolations(options);
    expect(Object.keys(found)).toEqual([field]);
    expect(found[field]).toMatch(description);
  });

  test('are required', () => {
    for (const nothing of [undefined, null, 'localhost:50051'])
      expect(() => createPlantroomClient(nothing as never)).toThrow(
        expect.objectContaining({
          reason: 'options_invalid',
          message: expect.stringMatching(/must be an object with address/),
        }),
      );
  });

  test('report all errors at once', () => {
    expect(
      Object.keys(
        listViolations({
          address: '',
          apiKey: '',
          organizationId: '',
          deadlineMs: -1,
          retry: { attempts: 0, firstPauseMs: -1 },
        }),
      ),
    ).toEqual(['address', 'apiKey', 'organizationId', 'deadlineMs', 'retry.attempts', 'retry.firstPauseMs']);
  });

  test.each<[string, object]>([
    ['an IPv6 address', { address: '[::1]:50051' }],
    ['a CA as text', { insecure: false, ca: pem }],
    ['a CA as bytes', { insecure: undefined, ca: new Uint8Array(Buffer.from(pem)) }],
    ['several CAs', { insecure: false, ca: `${pem}\n${rootCertificates[1] ?? ''}` }],
    ['the CAs of the machine', { insecure: false }],
    ['a key function', { apiKey: () => readFileSync('no such file', 'utf8') }],
    ['every number', { deadlineMs: 2_147_483_647, retry: { attempts: 1, firstPauseMs: 1, longestPauseMs: 1 } }],
  ])('accept %s', (_, options) => expect(listViolations(options)).toEqual({}));

  test('for one call are checked with the call, and a failing API key function fails the call', async () => {
    const client = createPlantroomClient(right);
    await expect(client.access.whoAmI({}, { deadlineMs: 0.5, requestId: 'two words' })).rejects.toMatchObject({
      reason: 'options_invalid',
      violations: [{ field: 'deadlineMs' }, { field: 'requestId' }],
    });
    await expect(client.readings.streamReadings({}, { requestId: '' }).next()).rejects.toMatchObject({
      violations: [{ field: 'requestId' }],
    });
    const invalidOptions: [unknown, string][] = [
      [null, ''],
      [{ requestId: null }, 'requestId'],
      [{ signal: 5 }, 'signal'],
      [{ timeoutMs: 5 }, 'timeoutMs'],
    ];
    for (const [options, field] of invalidOptions)
      await expect(client.access.whoAmI({}, options as never)).rejects.toMatchObject({
        reason: 'options_invalid',
        violations: [{ field }],
      });
    client.close();
    const clientWithoutKey = createPlantroomClient({ ...right, apiKey: () => readFileSync('no such file', 'utf8') });
    await expect(clientWithoutKey.access.whoAmI({})).rejects.toMatchObject({ code: 'ENOENT' });
    clientWithoutKey.close();
  });
});
