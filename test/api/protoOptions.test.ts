import { getOption, hasOption, type DescExtension, type DescField, type DescMethod } from '@bufbuild/protobuf';
import { getApiDescriptors } from '../../src/api/descriptors/descriptors';
import { readOption } from '../../src/api/descriptors/protoOptions';

const NOTHING = Symbol('nothing');

it('reads every option of every method and field as the library does, and returns the default where an option is absent', () => {
  const { registry } = getApiDescriptors();
  const all = [...registry];
  const options = all.filter((desc): desc is DescExtension => desc.kind === 'extension');
  const elements: (DescMethod | DescField)[] = all.flatMap((desc): (DescMethod | DescField)[] =>
    desc.kind === 'service' ? desc.methods : desc.kind === 'message' ? desc.fields : [],
  );
  const read = new Set<string>();
  for (const option of options) {
    for (const element of elements) {
      const given = hasOption(element, option);
      expect(readOption(element, option, NOTHING)).toEqual(given ? getOption(element, option) : NOTHING);
      if (given) read.add(option.name);
    }
  }
  expect([...read]).toEqual(expect.arrayContaining(['required_scope', 'http', 'rules', 'status_rules', 'admin_only']));
});
