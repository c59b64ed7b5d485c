package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// AuditEvent is one line of the audit log: who did what to which object, and how it ended.
type AuditEvent struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time         `json:"stageTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

// AuditOffset is the audit log's present end: what is read from there on came later.
func (cp *ControlPlane) AuditOffset() (int64, error) {
	info, err := os.Stat(cp.auditLog())
	if err != nil {
		return 0, fmt.Errorf("reading the audit log's size: %w", err)
	}
	return info.Size(), nil
}

// Audit calls each for every whole event from an offset on and returns the offset to go on from.
func (cp *ControlPlane) Audit(offset int64, each func(AuditEvent)) (int64, error) {
	file, err := os.Open(cp.auditLog())
	if err != nil {
		return offset, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return offset, fmt.Errorf("seeking in the audit log: %w", err)
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		return offset, fmt.Errorf("reading the audit log: %w", err)
	}
	for {
		end := bytes.IndexByte(raw, '\n')
		if end < 0 {
			return offset, nil
		}
		var event AuditEvent
		if err := json.Unmarshal(raw[:end], &event); err != nil {
			return offset, fmt.Errorf("decoding the audit log at offset %d: %w", offset, err)
		}
		each(event)
		raw, offset = raw[end+1:], offset+int64(end)+1
	}
}

func (cp *ControlPlane) auditLog() string { return filepath.Join(cp.Dir, "audit.log") }
