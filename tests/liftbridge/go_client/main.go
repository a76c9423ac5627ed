// Uses the whole surface of go-liftbridge v2 against the broker at an address: one line for each part that works,
// and an end with code 1 at the first that does not.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	lift "github.com/liftbridge-io/go-liftbridge/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const patience = 20 * time.Second

func must(err error, what string, values ...interface{}) {
	if err != nil {
		fail("%s: %v", fmt.Sprintf(what, values...), err)
	}
}

func want(holds bool, what string, values ...interface{}) {
	if !holds {
		fail(what, values...)
	}
}

func fail(what string, values ...interface{}) {
	fmt.Printf("FAILED: "+what+"\n", values...)
	os.Exit(1)
}

func wantError(err, wanted error, what string) {
	want(errors.Is(err, wanted), "%s: got %v, wanted %v", what, err, wanted)
}

func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

type program struct {
	client lift.Client
	addr   string
	run    int64
}

// A name that no earlier run has used.
func (p *program) name(kind string) string { return fmt.Sprintf("go-%s-%d", kind, p.run) }

func (p *program) create(kind string, options ...lift.StreamOption) string {
	ctx, cancel := bounded()
	defer cancel()
	name := p.name(kind)
	must(p.client.CreateStream(ctx, name+".subject", name, options...), "create %s", name)
	return name
}

func (p *program) publish(stream string, value string, options ...lift.MessageOption) *lift.Ack {
	ctx, cancel := bounded()
	defer cancel()
	ack, err := p.client.Publish(ctx, stream, []byte(value), options...)
	must(err, "publish to %s", stream)
	return ack
}

// The messages of a subscription: `count` of them, or those up to its end, with the error that ended it.
func (p *program) read(stream string, count int, options ...lift.SubscriptionOption) ([]*lift.Message, error) {
	ctx, cancel := bounded()
	defer cancel()
	type item struct {
		message *lift.Message
		err     error
	}
	items := make(chan item, 1000)
	err := p.client.Subscribe(ctx, stream, func(message *lift.Message, err error) {
		items <- item{message, err}
	}, options...)
	if err != nil {
		return nil, err
	}
	var found []*lift.Message
	for count < 0 || len(found) < count {
		select {
		case one := <-items:
			if one.err != nil {
				return found, one.err
			}
			found = append(found, one.message)
		case <-ctx.Done():
			fail("%s: %d messages in %v, wanted %d", stream, len(found), patience, count)
		}
	}
	return found, nil
}

func (p *program) streams() {
	ctx, cancel := bounded()
	defer cancel()
	name := p.create("options",
		lift.Group("some-group"), lift.ReplicationFactor(1), lift.Partitions(3), lift.RetentionMaxBytes(1<<30),
		lift.RetentionMaxMessages(1000), lift.RetentionMaxAge(time.Hour), lift.CleanerInterval(time.Minute),
		lift.SegmentMaxBytes(1<<26), lift.SegmentMaxAge(time.Hour), lift.CompactMaxGoroutines(2),
		lift.CompactEnabled(false), lift.AutoPauseTime(0), lift.AutoPauseDisableIfSubscribers(true), lift.MinISR(1),
		lift.OptimisticConcurrencyControl(false))
	wantError(p.client.CreateStream(ctx, name+".subject", name), lift.ErrStreamExists, "create it again")
	wantError(p.client.DeleteStream(ctx, p.name("missing")), lift.ErrNoSuchStream, "delete what is not there")
	all := p.create("all", lift.MaxReplication())
	want(p.client.CreateStream(ctx, "a b", p.name("bad")) != nil, "a subject with a blank is refused")

	metadata, err := p.client.FetchMetadata(ctx, lift.Streams([]string{name, all}))
	must(err, "metadata")
	info := metadata.GetStream(name)
	want(info != nil && info.Subject() == name+".subject", "metadata of %s: %v", name, info)
	want(len(info.Partitions()) == 3 && metadata.PartitionCountForStream(name) == 3, "partitions: %v", info.Partitions())
	want(time.Since(info.CreationTime()) < time.Minute, "created at %v", info.CreationTime())
	want(len(metadata.Brokers()) == 1 && metadata.Brokers()[0].Addr() == p.addr, "brokers: %v", metadata.Addrs())
	leader := info.GetPartition(1).Leader()
	want(leader != nil && metadata.Broker(leader.ID()).Host() != "" && leader.Port() > 0, "leader: %v", leader)
	want(leader.PartitionCount() >= 3 && leader.LeaderCount() == leader.PartitionCount(), "counts: %v", leader)
	want(info.Name() == name && len(metadata.Streams()) == 2, "streams: %v", metadata.Streams())
	want(time.Since(metadata.LastUpdated()) < time.Minute, "updated at %v", metadata.LastUpdated())
	want(len(info.GetPartition(0).Replicas()) == 1 && len(info.GetPartition(0).ISR()) == 1, "replicas")

	must(p.client.DeleteStream(ctx, all), "delete %s", all)
	metadata, err = p.client.FetchMetadata(ctx)
	must(err, "metadata of all")
	want(metadata.GetStream(all) == nil, "%s is still there", all)
}

// A broker without a key refuses the flag and makes nothing; one with a key keeps all messages encrypted.
func (p *program) encryption() {
	ctx, cancel := bounded()
	defer cancel()
	name := p.name("encrypted")
	err := p.client.CreateStream(ctx, name+".subject", name, lift.Encryption(true))
	if err != nil {
		want(status.Code(err) == codes.FailedPrecondition, "encryption without a key: %v", err)
		metadata, err := p.client.FetchMetadata(ctx)
		must(err, "metadata of all")
		want(metadata.GetStream(name) == nil, "%s is there", name)
		return
	}
	p.publish(name, "secret")
	found, err := p.read(name, 1, lift.StartAtEarliestReceived())
	must(err, "read")
	want(string(found[0].Value()) == "secret", "encrypted: %v", found[0])
}

type second struct{}

func (second) Partition(string, []byte, []byte, *lift.Metadata) int32 { return 1 }

func (p *program) publishing() {
	name := p.create("publish", lift.Partitions(2))
	headers := map[string][]byte{"h1": {1, 2}, "h2": {}}
	ack := p.publish(name, "hello", lift.Key([]byte("key")), lift.Headers(headers), lift.Header("h3", []byte("3")),
		lift.CorrelationID("some id"), lift.AckPolicyAll())
	want(ack.Offset() == 0 && ack.Stream() == name && ack.AckPolicy() == 1, "ack: %+v", ack)
	want(ack.PartitionSubject() == name+".subject" && ack.MessageSubject() == name+".subject", "subjects: %+v", ack)
	want(ack.CorrelationID() == "some id" && ack.AckInbox() != "", "ids: %+v", ack)
	want(!ack.CommitTimestamp().Before(ack.ReceptionTimestamp()), "times: %+v", ack)
	want(p.publish(name, "without an ack", lift.AckPolicyNone()) == nil, "an ack for the policy none")
	ack = p.publish(name, "second", lift.ToPartition(1), lift.AckPolicyLeader())
	want(ack.Offset() == 0 && ack.MessageSubject() == name+".subject.1", "ack: %+v", ack)
	ack = p.publish(name, "third", lift.PartitionBy(second{}))
	want(ack.Offset() == 1 && ack.MessageSubject() == name+".subject.1", "ack: %+v", ack)
	for i := 0; i < 4; i++ {
		p.publish(name, "around", lift.PartitionByRoundRobin())
		p.publish(name, "by key", lift.PartitionByKey(), lift.Key([]byte("foobarbazqux")))
	}

	found, err := p.read(name, 2, lift.StartAtEarliestReceived())
	must(err, "read")
	first := found[0]
	want(string(first.Value()) == "hello" && string(first.Key()) == "key" && first.Offset() == 0, "first: %v", first)
	want(first.Stream() == name && first.Partition() == 0 && first.Subject() == name+".subject", "first: %v", first)
	got := first.Headers()
	want(bytes.Equal(got["h1"], []byte{1, 2}) && string(got["h3"]) == "3", "headers: %v", got)
	_, there := got["h2"]
	want(there && len(got["h2"]) == 0 && string(got["subject"]) == name+".subject", "headers: %v", got)
	want(time.Since(first.Timestamp()) < time.Minute && first.ReplySubject() == "", "first: %v", first)
	want(string(found[1].Value()) == "without an ack", "second: %v", found[1])

	ctx, cancel := bounded()
	defer cancel()
	_, err = p.client.Publish(ctx, p.name("missing"), []byte("x"))
	want(err != nil, "publish to a stream that is not there")
	info, err := p.client.FetchPartitionMetadata(ctx, name, 1)
	must(err, "partition metadata")
	want(info.ID() == 1 && info.NewestOffset() >= 4 && info.HighWatermark() == info.NewestOffset(), "%+v", info)
	want(!info.MessagesReceivedTimestamps().LatestTime().Before(info.MessagesReceivedTimestamps().FirstTime()), "%+v", info)
}

func (p *program) publishingAsync() {
	name := p.create("async")
	const count = 5000
	ctx, cancel := bounded()
	defer cancel()
	var waiting sync.WaitGroup
	waiting.Add(count)
	offsets := make(map[int64]bool)
	var mutex sync.Mutex
	for i := 0; i < count; i++ {
		must(p.client.PublishAsync(ctx, name, []byte(fmt.Sprint(i)), func(ack *lift.Ack, err error) {
			must(err, "async publish")
			mutex.Lock()
			offsets[ack.Offset()] = true
			mutex.Unlock()
			waiting.Done()
		}), "begin an async publish")
	}
	waiting.Wait()
	want(len(offsets) == count, "%d different offsets of %d", len(offsets), count)
	found, err := p.read(name, count, lift.StartAtEarliestReceived())
	must(err, "read")
	for i, one := range found {
		want(one.Offset() == int64(i) && string(one.Value()) == fmt.Sprint(i), "%d: %s", one.Offset(), one.Value())
	}
	failed := make(chan error, 1)
	must(p.client.PublishAsync(ctx, p.name("missing"), []byte("x"), func(_ *lift.Ack, err error) { failed <- err }),
		"begin")
	want(<-failed != nil, "async publish to a stream that is not there")
}

func (p *program) publishingToSubjects() {
	name := p.create("subject")
	ctx, cancel := bounded()
	defer cancel()
	ack, err := p.client.PublishToSubject(ctx, name+".subject", []byte("direct"), lift.Key([]byte("k")))
	must(err, "publish to a subject")
	want(ack.Stream() == name && ack.Offset() == 0, "ack: %+v", ack)
	short, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	_, err = p.client.PublishToSubject(short, p.name("nothing.listens.here"), []byte("x"))
	wantError(err, lift.ErrAckTimeout, "a subject without a stream")
}

func (p *program) subscribing() {
	name := p.create("subscribe", lift.Partitions(2))
	var middle time.Time
	for i := 0; i < 6; i++ {
		if i == 3 {
			time.Sleep(20 * time.Millisecond)
			middle = time.Now()
			time.Sleep(20 * time.Millisecond)
		}
		p.publish(name, fmt.Sprint(i))
	}
	for what, one := range map[string]struct {
		options []lift.SubscriptionOption
		wanted  string
	}{
		"offset":       {[]lift.SubscriptionOption{lift.StartAtOffset(2), lift.StopAtOffset(4)}, "234"},
		"earliest":     {[]lift.SubscriptionOption{lift.StartAtEarliestReceived(), lift.StopAtLatestReceived()}, "012345"},
		"latest":       {[]lift.SubscriptionOption{lift.StartAtLatestReceived(), lift.StopAtLatestReceived()}, "5"},
		"from a time":  {[]lift.SubscriptionOption{lift.StartAtTime(middle), lift.StopAtLatestReceived()}, "345"},
		"up to a time": {[]lift.SubscriptionOption{lift.StartAtEarliestReceived(), lift.StopAtTime(middle)}, "012"},
		"delta":        {[]lift.SubscriptionOption{lift.StartAtTimeDelta(time.Minute), lift.StopAtOffset(0)}, "0"},
		"replica":      {[]lift.SubscriptionOption{lift.StartAtOffset(5), lift.StopAtOffset(5), lift.ReadISRReplica()}, "5"},
	} {
		found, err := p.read(name, -1, one.options...)
		wantError(err, lift.ErrReadonlyPartition, what)
		text := ""
		for _, message := range found {
			text += string(message.Value())
		}
		want(text == one.wanted, "%s: got %s, wanted %s", what, text, one.wanted)
	}
	_, err := p.read(p.name("missing"), 1)
	want(err != nil, "subscribe to a stream that is not there")
	_, err = p.read(name, 1, lift.Partition(7))
	want(err != nil, "subscribe to a partition that is not there")
	p.following(name)
}

func (p *program) following(name string) {
	ctx, cancel := bounded()
	defer cancel()
	got := make(chan string, 10)
	must(p.client.Subscribe(ctx, name, func(message *lift.Message, err error) {
		if err == nil {
			got <- string(message.Value())
		}
	}, lift.Partition(1), lift.StartAtNewOnly()), "follow")
	p.publish(name, "new", lift.ToPartition(1))
	want(<-got == "new", "the new message")
}

func (p *program) pausing() {
	ctx, cancel := bounded()
	defer cancel()
	name := p.create("pause", lift.Partitions(2))
	p.publish(name, "before")
	must(p.client.PauseStream(ctx, name, lift.PausePartitions(0)), "pause one")
	info, err := p.client.FetchPartitionMetadata(ctx, name, 0)
	must(err, "metadata of a paused partition")
	want(info.Paused() && !info.PauseTimestamps().LatestTime().IsZero(), "paused: %+v", info)
	ack := p.publish(name, "resumes")
	want(ack.Offset() == 1, "ack: %+v", ack)
	must(p.client.PauseStream(ctx, name, lift.ResumeAll()), "pause all")
	p.publish(name, "resumes all", lift.ToPartition(1))
	found, err := p.read(name, 2, lift.StartAtEarliestReceived())
	must(err, "read what was paused")
	want(len(found) == 2, "%v", found)
	must(p.client.PauseStream(ctx, name), "pause again")
	found, err = p.read(name, 1, lift.StartAtEarliestReceived(), lift.Resume())
	must(err, "resume by a subscription")
	want(len(found) == 1, "%v", found)
	wantError(p.client.PauseStream(ctx, p.name("missing")), lift.ErrNoSuchPartition, "pause what is not there")
}

func (p *program) readonly() {
	ctx, cancel := bounded()
	defer cancel()
	name := p.create("readonly", lift.Partitions(2))
	p.publish(name, "before")
	must(p.client.SetStreamReadonly(ctx, name, lift.ReadonlyPartitions(0)), "read-only")
	_, err := p.client.Publish(ctx, name, []byte("refused"))
	wantError(err, lift.ErrReadonlyPartition, "publish to a read-only partition")
	// FetchPartitionMetadata of this client leaves the flag out.
	metadata, err := p.client.FetchMetadata(ctx, lift.Streams([]string{name}))
	must(err, "metadata")
	info := metadata.GetStream(name).GetPartition(0)
	want(info.Readonly() && !info.ReadonlyTimestamps().LatestTime().IsZero(), "readonly: %+v", info)
	found, err := p.read(name, -1, lift.StartAtEarliestReceived())
	wantError(err, lift.ErrReadonlyPartition, "the end of a read-only partition")
	want(len(found) == 1, "%v", found)
	must(p.client.SetStreamReadonly(ctx, name, lift.ReadonlyPartitions(0), lift.Readonly(false)), "writable again")
	want(p.publish(name, "after").Offset() == 1, "the offset after")
}

func (p *program) concurrency() {
	ctx, cancel := bounded()
	defer cancel()
	name := p.create("concurrency", lift.OptimisticConcurrencyControl(true))
	p.publish(name, "first", lift.ExpectedOffset(0))
	_, err := p.client.Publish(ctx, name, []byte("wrong"), lift.ExpectedOffset(7))
	want(err != nil, "a wrong offset is refused")
	want(p.publish(name, "second", lift.ExpectedOffset(1)).Offset() == 1, "the right offset")
	want(p.publish(name, "third", lift.ExpectedOffset(-1)).Offset() == 2, "any offset")
	// The policy none is refused, which this client does not wait to hear.
	p.publish(name, "x", lift.AckPolicyNone(), lift.ExpectedOffset(3))
	want(p.publish(name, "fourth", lift.ExpectedOffset(3)).Offset() == 3, "the offset after the policy none")
}

func (p *program) cursors() {
	ctx, cancel := bounded()
	defer cancel()
	name := p.create("cursors")
	for _, offset := range []int64{-1, 5, 4, 1 << 40} {
		if offset >= 0 {
			must(p.client.SetCursor(ctx, "reader", name, 0, offset), "set a cursor")
		}
		found, err := p.client.FetchCursor(ctx, "reader", name, 0)
		must(err, "fetch a cursor")
		want(found == offset, "cursor: got %d, wanted %d", found, offset)
	}
	found, err := p.client.FetchCursor(ctx, "another", name, 0)
	must(err, "fetch another cursor")
	want(found == -1, "another cursor: %d", found)
}

func (p *program) groups() {
	name := p.create("group", lift.Partitions(4))
	group := p.name("members")
	got := make(chan *lift.Message, 100)
	quick := lift.FetchAssignmentsInterval(func(time.Duration) time.Duration { return 100 * time.Millisecond })
	ctx, cancel := bounded()
	defer cancel()
	var consumers []*lift.Consumer
	for _, id := range []string{"one", "two"} {
		consumer, err := p.client.CreateConsumer(group, lift.ConsumerID(id), lift.AutoOffsetEarliest(),
			lift.AutoCheckpoint(100*time.Millisecond), quick)
		must(err, "consumer %s", id)
		must(consumer.Subscribe(ctx, []string{name}, func(message *lift.Message, err error) {
			if err == nil {
				got <- message
			}
		}), "subscribe %s", id)
		consumers = append(consumers, consumer)
	}
	for i := int32(0); i < 4; i++ {
		p.publish(name, fmt.Sprint(i), lift.ToPartition(i))
	}
	seen := map[string]bool{}
	for len(seen) < 4 {
		select {
		case message := <-got:
			seen[string(message.Value())] = true
		case <-ctx.Done():
			fail("the group has read %v", seen)
		}
	}
	metadata, err := p.client.FetchMetadata(ctx, lift.ConsumerGroups([]string{group}))
	must(err, "metadata of a group")
	info := metadata.GetConsumerGroup(group)
	want(info != nil && info.ID() == group && info.Coordinator() != "" && info.Epoch() > 0, "group: %+v", info)
	for _, consumer := range consumers {
		must(consumer.Checkpoint(ctx), "checkpoint")
	}
	for _, consumer := range consumers {
		// Its Close leaves the group, and then may wait for a loop of its own that never ends.
		go consumer.Close()
	}
	for info != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		metadata, err = p.client.FetchMetadata(ctx, lift.ConsumerGroups([]string{group}))
		must(err, "metadata of a group that was left")
		info = metadata.GetConsumerGroup(group)
		if info != nil && info.Coordinator() == "" {
			info = nil
		}
	}
	want(info == nil, "the group is still there: %+v", info)
	cursor, err := p.client.FetchCursor(ctx, "__group:"+group, name, 2)
	must(err, "cursor of a group")
	want(cursor == 0, "the group's cursor: %d", cursor)
	p.beginnings()
}

// Where a group begins that has no cursors: at the last message, or not at all.
func (p *program) beginnings() {
	ctx, cancel := bounded()
	defer cancel()
	name := p.create("beginnings")
	p.publish(name, "first")
	p.publish(name, "last")
	for kind, option := range map[string]lift.ConsumerOption{
		"latest": lift.AutoOffsetLatest(), "none": lift.AutoOffsetNone(),
	} {
		consumer, err := p.client.CreateConsumer(p.name(kind), lift.ConsumerID("only"), option)
		must(err, "consumer %s", kind)
		got := make(chan string, 10)
		must(consumer.Subscribe(ctx, []string{name}, func(message *lift.Message, err error) {
			if err != nil {
				got <- err.Error()
			} else {
				got <- string(message.Value())
			}
		}), "subscribe %s", kind)
		select {
		case one := <-got:
			want((one == "last") == (kind == "latest"), "%s: %s", kind, one)
			want(kind == "latest" || strings.HasPrefix(one, "ConsumerError: no previous"), "%s: %s", kind, one)
		case <-ctx.Done():
			fail("a group that begins at %s has heard nothing", kind)
		}
		go consumer.Close()
	}
}

func (p *program) envelopes() {
	data := lift.NewMessage([]byte("value"), lift.Key([]byte("k")), lift.AckInbox("inbox"), lift.CorrelationID("c"))
	message, err := lift.UnmarshalMessage(data)
	must(err, "an envelope")
	want(string(message.Value()) == "value" && string(message.Key()) == "k", "envelope: %v", message)
	_, err = lift.UnmarshalAck(data)
	want(err != nil, "a message is no ack")
}

// The other ways to connect; each has one call.
func connecting(addr string) {
	ctx, cancel := bounded()
	defer cancel()
	ways := map[string][]lift.ClientOption{
		"low latency":  {lift.SetConnectToLowLatencyServer()},
		"low workload": {lift.SetConnectToLowWorkloadServer(), lift.ReadBufferSize(4096), lift.WriteBufferSize(4096)},
	}
	for name, options := range ways {
		if len(os.Args) > 2 {
			pem, err := os.ReadFile(os.Args[2])
			must(err, "the authority")
			authorities := x509.NewCertPool()
			want(authorities.AppendCertsFromPEM(pem), "the authority is no certificate")
			options = append(options, lift.TLSConfig(&tls.Config{RootCAs: authorities}))
		}
		client, err := lift.ConnectCtx(ctx, []string{addr}, options...)
		must(err, "connect: %s", name)
		_, err = client.FetchMetadata(ctx)
		must(err, "metadata: %s", name)
		must(client.Close(), "close: %s", name)
	}
	if len(os.Args) == 2 {
		options := lift.DefaultClientOptions()
		options.Brokers = []string{addr}
		client, err := options.Connect()
		must(err, "connect by default options")
		must(client.Close(), "close")
	}
}

func main() {
	addr := os.Args[1]
	options := []lift.ClientOption{lift.MaxConnsPerBroker(2), lift.KeepAliveTime(30 * time.Second),
		lift.ResubscribeWaitTime(10 * time.Second), lift.AckWaitTime(10 * time.Second)}
	if len(os.Args) > 2 {
		options = append(options, lift.TLSCert(os.Args[2]))
	}
	connecting(addr)
	client, err := lift.Connect([]string{addr}, options...)
	must(err, "connect")
	p := &program{client, addr, time.Now().UnixNano()}
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"streams", p.streams}, {"publishing", p.publishing}, {"publishing async", p.publishingAsync},
		{"publishing to subjects", p.publishingToSubjects}, {"subscribing", p.subscribing}, {"pausing", p.pausing},
		{"readonly", p.readonly}, {"concurrency", p.concurrency}, {"encryption", p.encryption}, {"cursors", p.cursors},
		{"groups", p.groups}, {"envelopes", p.envelopes},
	} {
		began := time.Now()
		part.run()
		fmt.Printf("ok %s (%v)\n", part.name, time.Since(began).Round(time.Millisecond))
	}
	must(client.Close(), "close")
}
